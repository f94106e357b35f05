package gen

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/umem"
)

var (
	testSrc = netip.MustParsePrefix("10.7.0.2/32")
	testDst = netip.MustParsePrefix("10.8.0.2/32")
	testMAC = net.HardwareAddr{2, 0, 0, 0, 0, 1}
)

// wire carries frames between queues in memory. A test can change them.
type wire struct {
	// fault is called with each frame and the number of earlier frames. It calls deliver
	// with the arriving frames, at once or later. nil delivers all.
	fault func(n int, frame []byte, deliver func([]byte))
	delay time.Duration

	mu         sync.Mutex
	sent       int
	slots      [1 << 12]slot
	head, tail int
	deliverFn  func([]byte)
}

type slot struct {
	bytes [1600]byte
	n     int
	due   time.Duration
}

func newWire() *wire {
	w := &wire{}
	w.deliverFn = w.deliver
	return w
}

func (w *wire) deliver(frame []byte) {
	s := &w.slots[w.tail%len(w.slots)]
	s.n, s.due = copy(s.bytes[:], frame), clock()+w.delay
	w.tail++
}

// end is a queue at one end of a wire, or at both if in and out are the same.
type end struct {
	in, out *wire // either may be nil
	mem     []byte
	pool    *umem.Pool
	fill    []uint32
}

func (e *end) FD() int                { return -1 }
func (e *end) Reclaim() (pending int) { return 0 }

func (e *end) Refill() {
	for len(e.fill) < cap(e.fill) && e.pool.Len() > 0 {
		e.fill = append(e.fill, e.pool.Take())
	}
}

func (e *end) Transmit(src []batch.Frame) (n int) {
	w := e.out
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range src {
		if len(w.slots)-(w.tail-w.head) < 8 { // room for a frame and those that a fault delayed
			break
		}
		frame := e.mem[f.Addr:][:f.Len]
		if w.fault == nil {
			w.deliver(frame)
		} else {
			w.fault(w.sent, frame, w.deliverFn)
		}
		w.sent++
		e.pool.Put(f.Addr)
		n++
	}
	return n
}

func (e *end) Receive(dst []batch.Frame) (n int) {
	w := e.in
	w.mu.Lock()
	defer w.mu.Unlock()
	for n < len(dst) && w.head < w.tail && len(e.fill) > 0 {
		s := &w.slots[w.head%len(w.slots)]
		if s.due > clock() {
			break
		}
		w.head++
		addr := e.fill[len(e.fill)-1] + umem.DataOffset
		e.fill = e.fill[:len(e.fill)-1]
		copy(e.mem[addr:], s.bytes[:s.n])
		dst[n] = batch.Frame{Addr: addr, Len: uint16(s.n)}
		n++
	}
	return n
}

// memoryPort returns a port with a worker per pair of wires.
func memoryPort(t testing.TB, name string, ends ...end) *Port {
	t.Helper()
	p := &Port{Name: name, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 2}}
	for _, e := range ends {
		m, err := umem.New(1024)
		require.NoError(t, err)
		t.Cleanup(func() { m.Close() })
		e.mem, e.pool, e.fill = m.Bytes(), umem.NewPool(m), make([]uint32, 0, 256)
		p.Workers = append(p.Workers, Worker{Queues: []dataplane.Queue{&e}, Memory: m, Pool: e.pool})
	}
	return p
}

// ports returns ports at both ends of a wire.
func ports(t testing.TB, w *wire) (tx, rx *Port) {
	return memoryPort(t, "tx", end{out: w}), memoryPort(t, "rx", end{in: w})
}

func testTraffic(flows int) Traffic {
	return Traffic{Src: testSrc, Dst: testDst, Flows: flows, DstMAC: testMAC}
}

func mustRun(t testing.TB, tx, rx *Port, tr Traffic, o Options) *Report {
	t.Helper()
	rep, err := Run(context.Background(), tx, rx, tr, o)
	require.NoError(t, err)
	return rep
}
