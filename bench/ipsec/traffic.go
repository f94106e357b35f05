package ipsec

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"

	"github.com/warproute/warproute/bench/bed"
	"github.com/warproute/warproute/memport"
	"github.com/warproute/warproute/packet"
)

// inner is a packet in clear, as an Ethernet frame, and the tunnel that it is of.
type inner struct {
	frame []byte
	*tunnel
}

// makeInner makes the packets: of the tunnels in turn, in a random order, each with
// another flow, and of the sizes in turn.
func (t *traffic) makeInner() {
	order := t.rnd.Perm(len(t.tunnels))
	// Where sizes and tunnels share a factor, each tunnel would get some of the sizes only.
	size := func(i int) int { return t.Sizes[(i+i/len(order))%len(t.Sizes)] }
	for i := range max(variety, len(order)) {
		n := t.tunnels[order[i%len(order)]]
		f := newFrame(t.rnd, size(i), t.IPv6)
		copy(f[packet.EthernetLen:], random(t.rnd, size(i)))
		putIP(f[packet.EthernetLen:], bed.Within(t.rnd, n.src), bed.Within(t.rnd, n.dst), packet.UDP, 64, uint16(t.rnd.Uint32()))
		t.inner = append(t.inner, inner{f, n})
	}
}

// newFrame returns an Ethernet frame around a packet of n bytes.
func newFrame(rnd *rand.Rand, n int, ipv6 bool) []byte {
	f := make([]byte, packet.EthernetLen+n)
	putEthernet(f, ipv6)
	return f
}

func putEthernet(f []byte, ipv6 bool) {
	binary.BigEndian.PutUint64(f, 0x020000000001_0200) // both link addresses; the source's tail is zero
	kind := packet.EtherTypeIPv4
	if ipv6 {
		kind = packet.EtherTypeIPv6
	}
	binary.BigEndian.PutUint16(f[12:], uint16(kind))
}

// putIP begins a packet with its header: don't fragment, and no type of service.
func putIP(p []byte, src, dst netip.Addr, next packet.Protocol, hops byte, id uint16) {
	if src.Is4() {
		h := p[:packet.IPv4Len]
		copy(h, []byte{0x45, 0, 0, 0, 0, 0, 0x40, 0, hops, byte(next), 0, 0})
		binary.BigEndian.PutUint16(h[2:], uint16(len(p)))
		binary.BigEndian.PutUint16(h[4:], id)
		copy(h[12:], src.AsSlice())
		copy(h[16:], dst.AsSlice())
		binary.BigEndian.PutUint16(h[10:], checksum(h))
		return
	}
	copy(p, []byte{0x60, 0, 0, 0, 0, 0, byte(next), hops})
	binary.BigEndian.PutUint16(p[4:], uint16(len(p)-packet.IPv6Len))
	copy(p[8:], src.AsSlice())
	copy(p[24:], dst.AsSlice())
}

// checksum of an IPv4 header in which that field is zero, by RFC 791.
func checksum(h []byte) uint16 {
	var sum uint32
	for i := 0; i < len(h); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

func (t *traffic) ipLen() int {
	if t.IPv6 {
		return packet.IPv6Len
	}
	return packet.IPv4Len
}

// espSize is how large a frame gets by ESP, so that its packet has n bytes.
func (t *traffic) espSize(n int) int {
	return packet.EthernetLen + t.ipLen() + headerLen + t.suite.IVLen + n + t.tunnels[0].library.trailerLen(n) + t.suite.ICVLen
}

// protect makes of f, which is as large as espSize says, the frame that the other
// end of a tunnel would send p in, with the tunnel's next sequence number.
func (t *traffic) protect(f []byte, p inner) {
	t.enclose(f, p)
	p.library.seal(f[packet.EthernetLen+t.ipLen():])
}

// enclose is protect but for sealing.
func (t *traffic) enclose(f []byte, p inner) {
	clear := p.frame[packet.EthernetLen:]
	p.sequence++
	putEthernet(f, t.IPv6)
	outer := f[packet.EthernetLen:]
	sealed := outer[t.ipLen():]
	binary.BigEndian.PutUint32(sealed[0:], p.spi)
	binary.BigEndian.PutUint32(sealed[4:], p.sequence)
	iv := sealed[headerLen : headerLen+t.suite.IVLen]
	if len(iv) > 0 {
		// Only CBC needs an unpredictable one, and here nobody guesses.
		binary.BigEndian.PutUint32(iv[len(iv)-4:], p.sequence)
	}
	n := copy(sealed[headerLen+len(iv):], clear)
	copy(sealed[headerLen+len(iv)+n:], p.library.trailer(n, t.carried()))
	putIP(outer, p.from, p.to, protoESP, 64, uint16(p.sequence))
}

const protoESP packet.Protocol = 50

// carried is the next header of a tunnel's trailer.
func (t *traffic) carried() byte {
	if t.IPv6 {
		return 41
	}
	return 4
}

// MaxRing is the largest Options.Ring: half of what a tape holds, as each frame on it begins
// a line.
const MaxRing = memport.TapeSize >> 21

// ring is what a worker plays, from one of a tape's frames on, and the tunnels that they
// are of.
type ring struct {
	tape    *memport.Tape
	first   int
	tunnels []*tunnel
}

// rings returns what the workers play while they are timed. What they are to decrypt is put
// into ESP by put.
func (t *traffic) rings(put func(f []byte, p inner)) ([]ring, error) {
	rings := make([]ring, t.Bed.Workers)
	if t.Window == 0 {
		var frames [][]byte
		var tunnels []*tunnel
		for _, p := range t.inner {
			f := p.frame
			if t.Direction == in {
				f = make([]byte, t.espSize(len(f)-packet.EthernetLen))
				put(f, p)
			}
			frames, tunnels = append(frames, f), append(tunnels, p.tunnel)
		}
		tape := memport.Record(frames)
		for w := range rings { // so that workers differ
			first := w * len(frames) / len(rings)
			rings[w] = ring{tape, first, slices.Concat(tunnels[first:], tunnels[:first])}
		}
		return rings, nil
	}
	var wg sync.WaitGroup
	for w := range rings { // which share no tunnels
		wg.Go(func() { rings[w] = t.prepare(w, t.Ring<<20, put) })
	}
	wg.Wait()
	for _, r := range rings {
		if least := 16 * t.Bed.MaxPackets; len(r.tunnels) < least {
			return nil, fmt.Errorf("prepare packets to decrypt: %d fit %d MiB, and %d are needed for chunks of %d; raise --ring",
				len(r.tunnels), t.Ring, least, t.Bed.MaxPackets)
		}
	}
	return rings, nil
}

// prepare returns the frames that a worker is to decrypt, as many as fit a number of
// bytes.
func (t *traffic) prepare(worker, room int, put func(f []byte, p inner)) ring {
	memory := make([]byte, room)
	var frames [][]byte
	var tunnels []*tunnel
	for {
		for _, p := range t.inner {
			if p.worker != worker {
				continue
			}
			n := t.espSize(len(p.frame) - packet.EthernetLen)
			if n > len(memory) {
				return ring{memport.Record(frames), 0, tunnels}
			}
			put(memory[:n:n], p)
			frames, tunnels = append(frames, memory[:n:n]), append(tunnels, p.tunnel)
			memory = memory[n:]
		}
	}
}
