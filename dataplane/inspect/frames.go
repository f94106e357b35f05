// Package inspect validates received packets and locates them in a worker's memory.
//
// Both stages of the dataplane use it: package esp, which applies IPsec policies, and the
// engines, which look destinations up. It decides nothing but drops.
package inspect

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// Block is the maximum number of packets that pass a stage together.
const Block = 256

// OK is the validation result of a packet that may be forwarded. No validation returns
// batch.Unprocessed as a reason to drop.
const OK = batch.Unprocessed

// Frames is the memory of a worker's frames.
type Frames struct {
	Mem       []byte
	Large     int    // offset of the first large frame in bytes; len(Mem) without large frames
	LargeSize uint32 // bytes of a large frame
}

// Bytes returns a frame, from its Ethernet header to its end, L2 padding included.
func (m *Frames) Bytes(f batch.Frame) []byte {
	return m.Mem[f.Addr : uint64(f.Addr)+uint64(f.Len)]
}

// Packet returns the IP packet in a frame, L2 padding included.
func (m *Frames) Packet(f batch.Frame) []byte { return m.Bytes(f)[packet.EthernetLen:] }

// Room returns the whole memory of a frame, the offset of its IP packet in it, and the packet's
// length in bytes, L2 padding included.
func (m *Frames) Room(f batch.Frame) (buf []byte, at, n int) {
	start, size := f.Addr&^(umem.FrameSize-1), uint32(umem.FrameSize)
	if m.IsLarge(f) {
		size = m.LargeSize
	}
	return m.Mem[start : start+size], int(f.Addr-start) + packet.EthernetLen, int(f.Len) - packet.EthernetLen
}

// IsLarge reports whether a packet is in a large frame. It begins in the frame's first 2 KiB.
func (m *Frames) IsLarge(f batch.Frame) bool { return int(f.Addr) >= m.Large }

// SetPacket makes the n bytes at an offset of the frame's Room its packet, and sets the EtherType.
func (m *Frames) SetPacket(f *batch.Frame, at, n int) {
	f.Addr = f.Addr&^(umem.FrameSize-1) + uint32(at-packet.EthernetLen)
	f.Len = uint16(packet.EthernetLen + n)
	m.SetEtherType(*f)
}

// SetEtherType sets the EtherType of a frame to its packet's IP version.
func (m *Frames) SetEtherType(f batch.Frame) {
	b := m.Bytes(f)
	t := packet.EtherTypeIPv4
	if b[packet.EthernetLen]>>4 == 6 {
		t = packet.EtherTypeIPv6
	}
	(*packet.Ethernet)(b).SetType(t)
}
