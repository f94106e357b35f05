package gpu

import (
	"sync/atomic"
	"unsafe"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/packet"
)

// A chunk in a hurry takes the heads of its packets along, and answers come back for them:
// so nobody waits for what goes to frames, or comes from them, over PCIe. mailbox.h says more.

// copyHeads copies the heads of frames, from 2 bytes before each on, or the halves of them,
// beside the descriptors that are posted next, with their tag in the place of the first two
// bytes. It returns what the chunk's size is to say of them: nothing, if the chunk is too
// large for it, or a frame is where its head is not a line.
func (s *slot) copyHeads(frames []batch.Frame, umem []byte) (size uint32) {
	if len(frames) > len(s.heads)/unitWords*unitFrames {
		return 0
	}
	next := s.seq + 1
	if next/tags != s.round { // tags begin anew: none is left of the last time
		s.round = next / tags
		clear(s.heads)
		clear(s.halves)
		clear(s.answers)
	}
	tag := tagOf(next)
	mem, last := unsafe.Pointer(unsafe.SliceData(umem)), len(umem)-8*headWords
	other := uint64(0)
	for i, l := 0, firstLane; i < len(frames); i, l = i+1, nextLane(l) {
		addr := frames[i].Addr
		if addr%16 != 2 || int(addr) > last {
			return 0
		}
		from := (*half)(unsafe.Add(mem, addr+halfAt-2))
		other |= from[0]>>16 ^ plainIPv4
		to := &s.halves[l]
		to[1] = from[1]
		to[2], to[3] = from[2], from[3]
		publish(&to[0], from[0]&^tags|tag)
	}
	if other&0xffffff == 0 {
		return halvesSize
	}
	for i, l := 0, firstLane; i < len(frames); i, l = i+1, nextLane(l) {
		from := (*head)(unsafe.Add(mem, frames[i].Addr-2))
		to := &s.heads[l]
		to[1] = from[1]
		*(*[6]uint64)(to[2:]) = *(*[6]uint64)(from[2:])
		publish(&to[0], from[0]&^tags|tag)
	}
	return headsSize
}

// plainIPv4 is how an EtherType and the first byte of a header without options are loaded.
const plainIPv4 = 0x45<<16 | uint64(packet.EtherTypeIPv4)>>8 | uint64(packet.EtherTypeIPv4)&0xff<<8

func tagOf(seq uint32) uint64 { return uint64(1 + seq%tags) }

// A lane is which word of the quads a packet has, and which head and answer.
const firstLane = 1

func nextLane(l int) int { return l + 1 + (l%unitWords+1)/unitWords }

func laneOf(packet int) int { return packet/unitFrames*unitWords + firstLane + packet%unitFrames }

// findAnswers tells whether all packets in front of end, of those that are not known to be
// finished, have their answers.
func (s *slot) findAnswers(end int) bool {
	if s.hurried == 0 {
		return false
	}
	tag := tagOf(s.seq)
	for l := laneOf(s.packet); s.packet < end; s.packet, l = s.packet+1, nextLane(l) {
		if a := &s.answers[l]; atomic.LoadUint64(&a[0])&tags != tag || atomic.LoadUint64(&a[2])&tags != tag {
			return false
		}
	}
	return true
}

// turns is of the tables by which packets of an answered part were decided on.
func (s *slot) turns(packet int) uint32 { return uint32(s.answers[laneOf(packet)][3] >> 32) }

// deliver takes the answers for packets in a row, from the given one on: it writes their
// results, and into their frames what changes there.
func (s *slot) deliver(first int, in []batch.Frame, out []batch.Result, umem []byte) {
	out = out[:len(in)]
	for i, l := 0, laneOf(first); i < len(in); i, l = i+1, nextLane(l) {
		f, a := in[i], &s.answers[l]
		r := batch.Result{Addr: f.Addr, Len: uint16(a[2] >> 16), Verdict: batch.Verdict(a[1] >> 48)}
		if r.Verdict.Action() == batch.ActionForward {
			to := unsafe.Pointer((*[packet.EthernetLen + packet.IPv4Len]byte)(umem[f.Addr:]))
			*(*uint64)(to) = a[0]>>16 | a[1]<<48
			*(*uint32)(unsafe.Add(to, 8)) = uint32(a[1] >> 16)
			*(*uint64)(unsafe.Add(to, packet.EthernetLen+4)) = a[2]>>32 | a[3]<<32
		} else {
			r.Addr = uint32(a[0] >> 16)
		}
		out[i] = r
	}
}
