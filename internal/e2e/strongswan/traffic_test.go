package strongswan

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
)

// rate is the rate of a load, in packets per second and direction. The guest has one processor without acceleration for
// both gateways, all loads and two key daemons.
const rate = 20

// load sends numbered UDP packets at a constant rate from the client to an echo at the server.
type load struct {
	name        string
	near, far   *net.UDPConn
	stop        chan struct{}
	done        sync.WaitGroup
	sent        atomic.Uint32
	there, back tally
}

// tally records the arrivals of packets.
type tally struct {
	mu      sync.Mutex
	times   []int // by number
	last    time.Time
	silence time.Duration // the longest
}

func (l *tally) note(number uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.times) <= int(number) {
		l.times = append(l.times, 0)
	}
	l.times[number]++
	now := time.Now()
	if !l.last.IsZero() {
		l.silence = max(l.silence, now.Sub(l.last))
	}
	l.last = now
}

// missing returns those of the first n packets that have not arrived, and the number of duplicates.
func (l *tally) missing(n uint32) (lost []int, twice int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range int(n) {
		switch {
		case i >= len(l.times) || l.times[i] == 0:
			lost = append(lost, i)
		case l.times[i] > 1:
			twice++
		}
	}
	return lost, twice
}

func (n *network) startLoad(f *family) *load {
	n.t.Helper()
	l := &load{name: f.name, stop: make(chan struct{})}
	n.must(n.server.Do(func() (err error) {
		l.far, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(f.server.Addr(), 0)))
		return err
	}))
	n.must(n.client.Do(func() (err error) {
		l.near, err = net.DialUDP("udp", nil, l.far.LocalAddr().(*net.UDPAddr))
		return err
	}))
	for _, c := range []*net.UDPConn{l.near, l.far} {
		n.t.Cleanup(func() { c.Close() })
		n.must(lengthen(c))
	}
	go l.echo()
	go l.hear()
	l.done.Go(func() { l.send(n.t) })
	return l
}

// lengthen enlarges the receive buffer of a socket for a slow guest.
func lengthen(c *net.UDPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	return errors.Join(raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20)
	}), err)
}

const size = 100 // of a payload

func (l *load) send(t *testing.T) {
	b := make([]byte, size)
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		for due := uint32(time.Since(start).Seconds() * rate); l.sent.Load() < due; {
			binary.BigEndian.PutUint32(b, l.sent.Load())
			if _, err := l.near.Write(b); err != nil {
				t.Errorf("%s: send: %v", l.name, err)
				return
			}
			l.sent.Add(1)
		}
		select {
		case <-l.stop:
			return
		default:
		}
	}
}

// echo records the packets at the server and sends them back.
func (l *load) echo() {
	b := make([]byte, size)
	for {
		n, from, err := l.far.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil && n == size {
			l.there.note(binary.BigEndian.Uint32(b))
			l.far.WriteToUDPAddrPort(b, from)
		}
	}
}

// hear records the echoes at the client.
func (l *load) hear() {
	b := make([]byte, size)
	for {
		n, err := l.near.Read(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil && n == size {
			l.back.note(binary.BigEndian.Uint32(b))
		}
	}
}

// end stops a load and checks that every packet arrived at both ends once.
func (l *load) end(t *testing.T) {
	t.Helper()
	close(l.stop)
	l.done.Wait()
	sent := l.sent.Load()
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if lost, _ := l.back.missing(sent); len(lost) == 0 {
			break
		}
	}
	time.Sleep(100 * time.Millisecond) // for duplicates
	for _, d := range []struct {
		way string
		*tally
	}{{"there", &l.there}, {"and back", &l.back}} {
		lost, twice := d.missing(sent)
		t.Logf("%s %s: %d packets sent, %d lost, %d twice; the longest silence is %v", l.name, d.way, sent, len(lost), twice, d.silence)
		if len(lost)+twice > 0 || sent == 0 {
			t.Errorf("%s %s: of %d packets, lost are %v, and %d arrived twice", l.name, d.way, sent, lost, twice)
		}
	}
}

// transfer sends bytes over TCP in both directions.
func (n *network) transfer() {
	n.t.Helper()
	const bytes = 1 << 17
	for _, f := range families {
		for _, d := range []struct {
			from, to *lab.Namespace
			addr     netip.Addr
		}{{n.client, n.server, f.server.Addr()}, {n.server, n.client, f.client.Addr()}} {
			r, err := lab.Transfer(d.from, d.to, d.addr, bytes, 10*time.Second)
			n.must(err)
			n.t.Logf("TCP, %s, from the %s: %d bytes in %v", f.name, d.from.Name(), r.Bytes, r.Elapsed)
		}
	}
}
