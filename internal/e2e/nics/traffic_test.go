package nics

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
)

const (
	trafficPort = 7001 // UDP destination
	ethernet    = 14   // bytes of the header
)

var trafficMagic = []byte("nics")

// frame returns frame number n from a side, of a size in bytes without Ethernet header, before or after
// the router.
func (p *pair) frame(n uint32, from, size int, forwarded bool) []byte {
	family := int(n & 1)
	eth := &layers.Ethernet{SrcMAC: p.taps[from], DstMAC: p.nics[from].MAC, EthernetType: layers.EthernetTypeIPv4}
	ttl := byte(64)
	if forwarded {
		eth.SrcMAC, eth.DstMAC, ttl = p.nics[1-from].MAC, p.taps[1-from], 63
	}
	src, dst := p.addr(family, from, 2).String(), p.addr(family, 1-from, 2).String()
	payload := make([]byte, size-28-20*family)
	copy(payload, trafficMagic)
	binary.BigEndian.PutUint32(payload[4:], n)
	for i := 8; i < len(payload); i++ {
		payload[i] = byte(int(n) + i)
	}
	udp := &layers.UDP{SrcPort: layers.UDPPort(2000 + n%64), DstPort: trafficPort} // 64 flows, for RSS
	var ip gopacket.SerializableLayer
	if family == 0 {
		h := testutil.IPv4(src, dst, layers.IPProtocolUDP)
		h.TTL, h.Id = ttl, uint16(n)
		ip = h
	} else {
		eth.EthernetType = layers.EthernetTypeIPv6
		h := testutil.IPv6(src, dst, layers.IPProtocolUDP)
		h.HopLimit = ttl
		ip = h
	}
	return testutil.Frame(eth, ip, udp, gopacket.Payload(payload))
}

// numberOf returns the number of a frame of frame; ok is false for others.
func numberOf(frame []byte) (n uint32, ok bool) {
	at := ethernet + 28
	if len(frame) > ethernet && frame[ethernet]>>4 == 6 {
		at += 20
	}
	if len(frame) < at+8 || !bytes.Equal(frame[at:at+4], trafficMagic) {
		return 0, false
	}
	return binary.BigEndian.Uint32(frame[at+4:]), true
}

// sink collects the frames of a direction.
type sink struct {
	mu    sync.Mutex
	seen  map[uint32]int // times by number
	wrong string         // the first frame with other content
	last  time.Time
}

func (s *sink) count() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, times := range s.seen {
		n += times
	}
	return n
}

// burst is the number of frames that are sent at once; each NIC has more descriptors.
const (
	burst = 16
	pause = 4 * time.Millisecond
)

// flow is traffic in one direction: frames of sizes in turn.
type flow struct {
	p       *pair
	from    int
	sizes   []int
	first   uint32 // number of the first frame
	next    uint32 // number of the next frame
	sink    sink
	fd      int
	stopped func()
}

// flow starts to listen for traffic from a side.
func (p *pair) flow(t *testing.T, from int, first uint32, sizes ...int) *flow {
	t.Helper()
	f := &flow{p: p, from: from, sizes: sizes, first: first, next: first, sink: sink{seen: map[uint32]int{}}}
	stop, err := p.hosts[1-from].Listen(tap, func(frame []byte, out bool) {
		n, ok := numberOf(frame)
		if out || !ok {
			return
		}
		want := p.frame(n, from, f.size(n), true)
		f.sink.mu.Lock()
		defer f.sink.mu.Unlock()
		f.sink.seen[n]++
		f.sink.last = time.Now()
		if len(want) < 60 && len(frame) == 60 { // padded by the NIC
			frame = frame[:len(want)]
		}
		if !bytes.Equal(frame, want) && f.sink.wrong == "" {
			f.sink.wrong = fmt.Sprintf("frame %d from side %d:\n got %x\nwant %x", n, from, frame[:min(len(frame), 80)], want[:min(len(want), 80)])
		}
	})
	require.NoError(t, err)
	f.stopped = stop
	f.fd, err = p.hosts[from].PacketSocket(tap)
	require.NoError(t, err)
	return f
}

func (f *flow) size(n uint32) int { return f.sizes[int(n>>1)%len(f.sizes)] }

// send sends n frames at some 4,000 packets per second. A host that is down loses them; they are
// counted.
func (f *flow) send(n int) {
	for i := range n {
		_ = unix.Sendto(f.fd, f.p.frame(f.next, f.from, f.size(f.next), false), 0, nil)
		f.next++
		if i%burst == burst-1 {
			time.Sleep(pause)
		}
	}
}

// end waits until no more frames arrive and returns the numbers of sent, received and repeated frames.
func (f *flow) end(t *testing.T) (sent, received, repeated int) {
	t.Helper()
	sent = int(f.next - f.first)
	for idle := time.Now(); time.Since(idle) < time.Second && f.sink.count() < sent; time.Sleep(20 * time.Millisecond) {
		f.sink.mu.Lock()
		if f.sink.last.After(idle) {
			idle = f.sink.last
		}
		f.sink.mu.Unlock()
	}
	f.stopped()
	unix.Close(f.fd)
	if f.sink.wrong != "" {
		t.Errorf("%s, Linux %s: %s", f.p.model, f.p.kernel, f.sink.wrong)
	}
	for _, times := range f.sink.seen {
		repeated += times - 1
	}
	return sent, len(f.sink.seen), repeated
}

// exchange sends n frames in each direction and checks that each arrives once, unchanged but for TTL,
// checksum and addresses, and that the router has counted them.
func (r *router) exchange(t *testing.T, n int, sizes ...int) {
	t.Helper()
	before := r.show()
	if lost := r.loses(t, n, sizes...); lost > 0 {
		t.Errorf("%s, Linux %s: %d of %d frames of %v bytes are lost; ports before: %+v\nnow: %+v", r.model, r.kernel, lost, 2*n, sizes, before, r.show())
	}
	after := r.show()
	for side := range 2 {
		in, out := after[side].RxPackets-before[side].RxPackets, after[side].TxPackets-before[side].TxPackets
		if in < uint64(n) || out < uint64(n) {
			t.Errorf("%s, Linux %s: port %d counted %d received and %d transmitted packets of %d", r.model, r.kernel, side, in, out, n)
		}
	}
}

// loses sends n frames in each direction and returns the number of those that did not arrive. A frame that
// arrives twice or changed fails the test.
func (p *pair) loses(t *testing.T, n int, sizes ...int) (lost int) {
	t.Helper()
	flows := [2]*flow{p.flow(t, 0, 0, sizes...), p.flow(t, 1, 1<<20, sizes...)}
	var all sync.WaitGroup
	for _, f := range flows {
		all.Go(func() { f.send(n) })
	}
	all.Wait()
	for side, f := range flows {
		sent, received, repeated := f.end(t)
		lost += sent - received
		if repeated != 0 {
			t.Errorf("%s, Linux %s: of %d frames of %v bytes from side %d, %d arrived twice", p.model, p.kernel, sent, sizes, side, repeated)
		}
	}
	return lost
}
