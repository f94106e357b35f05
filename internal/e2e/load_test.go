package e2e

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
)

// A load sends numbered UDP packets at a constant rate, round-robin by flow. Watches at other links
// record the arrivals with time and destination MAC.

const loadPort = 7777 // of the UDP packets

func packetSocket(t *testing.T, ns *lab.Namespace, link string) int {
	t.Helper()
	fd, err := ns.PacketSocket(link)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// listen calls each with every frame on a link until the test ends.
func listen(t *testing.T, ns *lab.Namespace, link string, each func(frame []byte, out bool)) {
	t.Helper()
	stop, err := ns.Listen(link, each)
	require.NoError(t, err)
	t.Cleanup(stop)
}

// load is a running load.
type load struct {
	stop chan struct{}
	done sync.WaitGroup
	sent []atomic.Uint32 // by flow
}

// loadBurst is the maximum number of packets that a load sends at once after it was not scheduled. It
// skips the others, because all of them would exceed the rate.
const loadBurst = 64

// startLoad sends rate packets per second from the client to dsts, round-robin.
func startLoad(t *testing.T, top *lab.Topology, rate int, dsts ...string) *load {
	t.Helper()
	fd := packetSocket(t, top.Client, lab.ClientLink)
	routerMAC := macOf(t, top.Router, lab.LAN)
	var frames [][]byte
	for _, d := range dsts {
		udp, client := testutil.UDP4, lab.Client4
		if netip.MustParseAddr(d).Is6() {
			udp, client = testutil.UDP6, lab.Client6
		}
		f := udp(client.Addr().String(), d, 1000, loadPort, unmarked...)
		copy(f, routerMAC)
		frames = append(frames, f)
	}
	l := &load{stop: make(chan struct{}), sent: make([]atomic.Uint32, len(dsts))}
	l.done.Go(func() {
		// The thread has priority, so that it sends on time; it ends with the goroutine.
		runtime.LockOSThread()
		if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -5); err != nil {
			t.Errorf("put the load before other work: %v", err)
		}
		start := time.Now()
		for n := 0; ; {
			select {
			case <-l.stop:
				return
			default:
			}
			due := int(time.Since(start).Seconds() * float64(rate))
			if n >= due {
				time.Sleep(200 * time.Microsecond)
				continue
			}
			if late := due - n; late > loadBurst {
				n += late - loadBurst
			}
			flow := n % len(frames)
			f := frames[flow]
			number := l.sent[flow].Add(1) - 1
			mark(f, uint32(flow), number)
			if err := unix.Send(fd, f, 0); err != nil && !errors.Is(err, unix.ENOBUFS) {
				t.Errorf("send: %v", err)
				return
			}
			n++
		}
	})
	t.Cleanup(l.end)
	return l
}

// end stops the load and waits for the last packets to arrive.
func (l *load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
		l.done.Wait()
		time.Sleep(100 * time.Millisecond)
	}
}

// payload returns the payload of a packet of the load, nil for other packets.
func payload(frame []byte) []byte {
	at := 14 + 28
	if len(frame) > 14 && frame[14]>>4 == 6 {
		at = 14 + 48
	}
	if len(frame) < at+20 || binary.BigEndian.Uint16(frame[at-6:]) != loadPort {
		return nil
	}
	return frame[at : at+20]
}

// unmarked is the payload of a packet before mark.
var unmarked = append(binary.BigEndian.AppendUint64(make([]byte, 8, 20), math.MaxUint64), 0, 0, 0, 0)

// mark numbers a packet. The complement of each number keeps the UDP checksum valid.
func mark(frame []byte, flow, number uint32) {
	p := payload(frame)
	for i, n := range []uint32{flow, number, ^flow, ^number} {
		binary.BigEndian.PutUint32(p[4*i:], n)
	}
}

// arrival is a packet of the load at a watch.
type arrival struct {
	at     time.Time
	number uint32
	mac    [6]byte // destination
	ttl    byte
}

// watch records the packets of a load at a link.
type watch struct {
	mu    sync.Mutex
	flows map[uint32][]arrival
}

func startWatch(t *testing.T, ns *lab.Namespace, link string) *watch {
	t.Helper()
	w := &watch{flows: map[uint32][]arrival{}}
	listen(t, ns, link, func(frame []byte, out bool) {
		if !out {
			w.record(frame)
		}
	})
	return w
}

// record records a frame if it is a packet of a load.
func (w *watch) record(frame []byte) {
	p := payload(frame)
	if p == nil {
		return
	}
	ttl := frame[14+8]
	if frame[14]>>4 == 6 {
		ttl = frame[14+7]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	flow := binary.BigEndian.Uint32(p)
	w.flows[flow] = append(w.flows[flow], arrival{time.Now(), binary.BigEndian.Uint32(p[4:]), [6]byte(frame[:6]), ttl})
}

// of returns the arrivals of a flow so far.
func (w *watch) of(flow uint32) []arrival {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]arrival(nil), w.flows[flow]...)
}

// last returns the time of a flow's last arrival, zero for none.
func (w *watch) last(flow uint32) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.flows[flow]
	if len(a) == 0 {
		return time.Time{}
	}
	return lastAt(a)
}

// clear forgets all arrivals.
func (w *watch) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.flows)
}

// missing returns the numbers below n that no list contains, and the number of duplicates and
// reordered arrivals.
func missing(n uint32, lists ...[]arrival) (lost []uint32, disorder int) {
	seen := make([]bool, n)
	for _, l := range lists {
		last := -1
		for _, a := range l {
			if int(a.number) <= last || seen[a.number] {
				disorder++
			}
			seen[a.number] = true
			last = int(a.number)
		}
	}
	for i, ok := range seen {
		if !ok {
			lost = append(lost, uint32(i))
		}
	}
	return lost, disorder
}

func TestMarkKeepsTheChecksumValid(t *testing.T) {
	for _, frame := range []func(payload []byte) []byte{
		func(p []byte) []byte { return testutil.UDP4("10.0.0.1", "10.0.0.2", 1000, loadPort, p...) },
		func(p []byte) []byte { return testutil.UDP6("fd00::1", "fd00::2", 1000, loadPort, p...) },
	} {
		f := frame(unmarked)
		mark(f, 3, 123456)
		if want := frame(payload(f)); !bytes.Equal(f, want) {
			t.Errorf("got  % x\nwant % x", f, want)
		}
	}
}
