package ipsec

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/memport"
	"github.com/warproute/warproute/packet"
)

// inner is a cleartext packet, as an Ethernet frame, and its tunnel.
type inner struct {
	frame []byte
	*tunnel
}

// makeInner makes the packets: tunnels and sizes round-robin, tunnels in random order, a flow per
// packet.
func (t *traffic) makeInner() {
	order := t.rnd.Perm(len(t.tunnels))
	// Every tunnel gets all sizes, whatever the number of tunnels: in each round it begins one further.
	size := func(i int) int { return t.Sizes[(i%len(order)+i/len(order))%len(t.Sizes)] }
	for i := range max(variety, len(order)) {
		n := t.tunnels[order[i%len(order)]]
		f := make([]byte, packet.EthernetLen+size(i))
		testbed.PutEthernet(f, t.IPv6)
		copy(f[packet.EthernetLen:], random(t.rnd, size(i)))
		testbed.PutIP(f[packet.EthernetLen:], testbed.Within(t.rnd, n.src), testbed.Within(t.rnd, n.dst), packet.UDP, 64, uint16(t.rnd.Uint32()))
		t.inner = append(t.inner, inner{f, n})
	}
}

func (t *traffic) ipLen() int {
	if t.IPv6 {
		return packet.IPv6Len
	}
	return packet.IPv4Len
}

// espSize returns the size of an ESP frame with an inner packet of n bytes.
func (t *traffic) espSize(n int) int {
	return packet.EthernetLen + t.ipLen() + headerLen + t.suite.IVLen + n + t.tunnels[0].library.trailerLen(n) + t.suite.ICVLen
}

// protect writes to f, of espSize bytes, the frame in which the peer sends p, with the tunnel's next
// sequence number.
func (t *traffic) protect(f []byte, p inner) {
	t.enclose(f, p)
	p.library.seal(f[packet.EthernetLen+t.ipLen():])
}

// enclose is protect without encryption.
func (t *traffic) enclose(f []byte, p inner) {
	clear := p.frame[packet.EthernetLen:]
	p.sequence++
	testbed.PutEthernet(f, t.IPv6)
	outer := f[packet.EthernetLen:]
	sealed := outer[t.ipLen():]
	binary.BigEndian.PutUint32(sealed[0:], p.spi)
	binary.BigEndian.PutUint32(sealed[4:], p.sequence)
	iv := sealed[headerLen : headerLen+t.suite.IVLen]
	if len(iv) > 0 {
		// CBC requires an unpredictable IV only for security.
		binary.BigEndian.PutUint32(iv[len(iv)-4:], p.sequence)
	}
	n := copy(sealed[headerLen+len(iv):], clear)
	copy(sealed[headerLen+len(iv)+n:], p.library.trailer(n, t.carried()))
	testbed.PutIP(outer, p.from, p.to, protoESP, 64, uint16(p.sequence))
}

const protoESP packet.Protocol = 50

// carried returns the next header in the ESP trailer.
func (t *traffic) carried() byte {
	if t.IPv6 {
		return 41
	}
	return 4
}

// MaxRing is the limit of Options.Ring: half a tape, because frames on it are aligned to lines.
const MaxRing = memport.MaxRecording >> 21

// ring is a worker's input: a tape, the first frame to play, and the tunnel of each frame.
type ring struct {
	tape    *memport.Recording
	first   int
	tunnels []*tunnel
}

// rings returns the input of the workers. put makes the frames to decrypt.
func (t *traffic) rings(put func(f []byte, p inner)) ([]ring, error) {
	rings := make([]ring, t.Testbed.Workers)
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
		for w := range rings { // workers begin at different frames
			first := w * len(frames) / len(rings)
			rings[w] = ring{tape, first, slices.Concat(tunnels[first:], tunnels[:first])}
		}
		return rings, nil
	}
	var wg sync.WaitGroup
	for w := range rings { // tunnels are not shared
		wg.Go(func() { rings[w] = t.prepare(w, t.Ring<<20, put) })
	}
	wg.Wait()
	for _, r := range rings {
		if least := 16 * t.Testbed.MaxPackets; len(r.tunnels) < least {
			return nil, fmt.Errorf("prepare packets to decrypt: %d fit in %d MiB, and chunks of %[4]d need %[3]d; raise --ring",
				len(r.tunnels), t.Ring, least, t.Testbed.MaxPackets)
		}
	}
	return rings, nil
}

// prepare returns the frames for a worker to decrypt, as many as fit in room bytes.
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
