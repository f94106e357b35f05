package esp

import (
	"encoding/binary"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// The packets of a worker's lane are often of one SA, for example if the gateway has one large tunnel. The host can post a chunk
// for such an SA in one pass, without having read it. Outbound, it reserves a sequence number for each packet first, so
// that numbers are in the order of packets and chunks. A device seals or opens the packets that are of the SA. The host
// processes the others, and gives those that leave by the SA after all the numbers that they were reserved.

// Expected is the SA that all packets of a chunk are expected to be of.
type Expected struct {
	SA    *ipsec.SA // nil: none
	First uint64    // outbound: number of the first packet
	// Outbound: lengths in bytes.
	Largest int // packet that fits the path
	layout  ipsec.TunnelLayout
}

// countFirstSA counts n packets of an SA, if it is that of the first packet: see FirstSA.
func (s *Stage) countFirstSA(sa *ipsec.SA, n int) {
	if s.firstSA == nil {
		s.firstSA = sa
	}
	if s.firstSA == sa {
		s.firstCount += n
	}
}

// FirstSA returns the SA of the first packet of the last chunk that an SA encrypts or decrypts, and the number of packets of
// that SA.
func (s *Stage) FirstSA() (sa *ipsec.SA, n int) { return s.firstSA, s.firstCount }

// MayExpect reports whether a device with keys below a number may expect packets to be of an SA: the gateway uses it, and the
// device finds out by itself which packets are its.
func (s *Stage) MayExpect(sa *ipsec.SA, keys uint32) bool {
	switch {
	case sa.KeyIndex() >= keys || s.HostDecrypts(sa) || sa.Mode() != ipsec.Tunnel:
		return false
	case sa.Direction() == ipsec.Out:
		return s.Classifies() && s.gateway.Current(sa.Tunnel()) == sa
	}
	return s.Finds() && sa.FoundByDevices() && s.gateway.Inbound(sa.Config().SPI, sa.Dst()) == sa && sa.Usable(ipsec.In) == ipsec.OK
}

// Expect expects n packets to be of an SA that MayExpect permits. It reserves the numbers of outbound ones. ok is false if the
// SA has none, or is not usable.
func (s *Stage) Expect(sa *ipsec.SA, n int) (e Expected, ok bool) {
	s.SetClock()
	e.SA = sa
	if sa.Direction() == ipsec.In {
		return e, true
	}
	e.Largest = s.Longest(sa)
	e.layout = sa.TunnelLayout()
	e.First, ok = sa.ReserveUnread(n)
	return e, ok
}

// BeginExpected begins a chunk for an outbound SA that a device has finished, but for some packets, which are the host's. Only with
// these there are jobs.
func (s *Stage) BeginExpected(e *Expected, jobs []Job, hostPackets int) {
	s.startCounts()
	if hostPackets == 0 {
		return
	}
	for i := range jobs {
		jobs[i].reset()
		jobs[i].ReservedSA, jobs[i].ReservedSeq = e.SA, e.First+uint64(i)
	}
}

// AcceptExpected finishes packets that a device has sealed by an expected SA, from the first one on as long as it forwards them to one
// of a number of ports, and their results are those of the SA's ESP. It returns their number, and the bytes of the packets without
// ESP. Other packets need Sealed.
func (s *Stage) AcceptExpected(e *Expected, in []batch.Frame, out, results []batch.Result, reports []SAReport, ports int) (n int, bytes uint64) {
	in, out, reports = in[:len(results)], out[:len(results)], reports[:len(results)]
	key, layout := e.SA.KeyIndex(), e.layout
	for i, r := range results {
		size := reports[i].Size()
		f, ok := sealedFrame(layout, in[i], size)
		if uint(r.Verdict-batch.Forward(0)) >= uint(ports) || reports[i].KeyIndex() != key || !ok ||
			size < packet.IPv4Len || packet.EthernetLen+size > int(in[i].Len) || r.Addr() != f.Addr || r.Len() != f.Len {
			return i, bytes
		}
		in[i], out[i] = f, r
		bytes += uint64(size)
	}
	return len(results), bytes
}

// Sealed updates the frame of a packet of size bytes that a device has sealed. It is not ok if the frame has no such packet, or
// no room for its ESP.
func (s *Stage) Sealed(e *Expected, f *batch.Frame, size int) (ok bool) {
	return sealed(e.layout, f, size)
}

func sealed(l ipsec.TunnelLayout, f *batch.Frame, size int) (ok bool) {
	if size < packet.IPv4Len || packet.EthernetLen+size > int(f.Len) {
		return false
	}
	after, ok := sealedFrame(l, *f, size)
	if ok {
		*f = after
	}
	return ok
}

// sealedFrame returns the frame of a packet of size bytes after it was sealed. It is not ok if the ESP has no room. It is inlined.
func sealedFrame(l ipsec.TunnelLayout, f batch.Frame, size int) (batch.Frame, bool) {
	at, n := int(f.Addr%umem.FrameSize)-int(l.HeaderLen), int(l.HeaderLen-l.ESPHeaderLen)+packet.EthernetLen+l.ESPLen(size)
	return batch.Frame{Addr: f.Addr - uint32(l.HeaderLen), Len: uint16(n), Origin: f.Origin.With(batch.PolicyDone)}, at >= 0 && at+n <= umem.FrameSize
}

// IsSealed reports whether the frame of packet i of the chunk has ESP of the SA with the packet's number. The host reads one
// packet of a tile for that: without a canary (gpu.checker), it would not notice a device that writes nothing.
func (s *Stage) IsSealed(e *Expected, f batch.Frame, i int) bool {
	return s.hasESP(e.SA, e.layout, f) && binary.BigEndian.Uint32(s.espOf(e.layout, f)[4:]) == uint32(e.First)+uint32(i)
}

// espOf returns the frame of a sealed packet from ESP on.
func (s *Stage) espOf(l ipsec.TunnelLayout, f batch.Frame) []byte {
	return s.frames.Bytes(f)[packet.EthernetLen+int(l.HeaderLen)-int(l.ESPHeaderLen):]
}

func (s *Stage) hasESP(sa *ipsec.SA, l ipsec.TunnelLayout, f batch.Frame) bool {
	return binary.BigEndian.Uint32(s.espOf(l, f)) == sa.SPI()
}

// CountSealed counts packets that a device has sealed, and their bytes.
func (s *Stage) CountSealed(e *Expected, packets int, bytes uint64) {
	if packets > 0 {
		e.SA.Count(s.worker, uint64(packets), bytes)
		s.countProtected(packets, e.SA)
		s.countFirstSA(e.SA, packets)
	}
}
