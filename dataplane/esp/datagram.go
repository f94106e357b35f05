package esp

import (
	"math"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/inspect"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// The buffer of Datagrams, in bytes. ESP headers grow into the room in front of a packet, as in
// a frame. A packet of maxDatagram bytes is the longest whose frame length fits 16 bits.
const (
	datagramAt   = umem.DataOffset + packet.EthernetLen
	maxDatagram  = math.MaxUint16 - packet.EthernetLen
	maxReceived  = packet.IPv6Len + math.MaxUint16
	frontOfESP   = packet.IPv6Len + 8 + 8 + 16 // outer header, UDP, SPI and sequence number, IV: at most
	datagramRoom = datagramAt - frontOfESP + maxDatagram
)

// Datagrams is the stage for reassembled packets that are longer than any frame. It has a buffer
// for one.
type Datagrams struct{ stage Stage }

// NewDatagrams returns the stage for reassembled packets of the same worker.
func (s *Stage) NewDatagrams() *Datagrams {
	d := &Datagrams{stage: *s}
	d.stage.frames = inspect.Frames{Mem: make([]byte, datagramAt+maxReceived), LargeSize: datagramRoom}
	return d
}

// Mem returns the buffer that the frames of Apply are in.
func (d *Datagrams) Mem() []byte { return d.stage.frames.Mem }

// Apply applies the policies to a reassembled IP packet. origin is that of its last
// fragment. It returns the packet's frame in the buffer, and its drop, or the zero result if it
// is to be looked up. now is the IP packet, valid until the next call.
func (d *Datagrams) Apply(p []byte, origin batch.Origin) (f batch.Frame, r batch.Result, now []byte) {
	const start = datagramAt - packet.EthernetLen
	s, at, n := &d.stage, datagramAt, copy(d.stage.frames.Mem[datagramAt:], p)
	mem := s.frames.Mem
	now = mem[at : at+n]
	s.frames.SetEtherType(batch.Frame{Addr: start, Len: packet.EthernetLen + 1})
	s.gateway.Clock.Set(batch.Clock())

	// The outermost ESP is removed first: with it, a packet may be too long for a frame's length.
	f.Origin, s.n = origin, 0
	by, drop := s.classify(mem[start:at+n], 0, nil)
	if by != nil {
		var err ipsec.Error
		if at, n, err = by.Decapsulate(s.worker, mem, at, n); err != ipsec.OK {
			drop = dropFor(err)
		} else if by.Mode() == ipsec.Tunnel {
			f.Origin = f.Origin.Without(batch.Reassembled)
		}
	}
	if drop.Verdict == 0 && n > maxDatagram {
		drop = batch.DropFor(batch.XfrmInBufferError)
	}
	if drop.Verdict != 0 {
		f.Origin = f.Origin.With(batch.PolicyDone)
		return f, drop, now
	}

	s.frames.SetPacket(&f, at, n)
	in, out := [1]batch.Frame{f}, [1]batch.Result{}
	s.applyBlock(in[:], out[:], nil, by)
	return in[0], out[0], s.frames.Packet(in[0])
}
