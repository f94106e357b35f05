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
	if len(frames) > len(s.heads)/headWords/unitWords*unitFrames {
		return 0
	}
	lines, halves := inHeads(frames, umem)
	if !lines {
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
	if halves {
		for i, f := range frames {
			from := (*[halfWords]uint64)(unsafe.Pointer(&umem[f.Addr+halfAt-2]))
			to := (*[halfWords]uint64)(s.halves[lane(i)*halfWords:])
			to[1] = from[1]
			*(*[2]uint64)(to[2:]) = *(*[2]uint64)(from[2:])
			publish(&to[0], from[0]&^tags|tag)
		}
		return halvesSize
	}
	for i, f := range frames {
		from := (*[headWords]uint64)(unsafe.Pointer(&umem[f.Addr-2]))
		to := (*[headWords]uint64)(s.heads[lane(i)*headWords:])
		to[1] = from[1]
		*(*[6]uint64)(to[2:]) = *(*[6]uint64)(from[2:])
		publish(&to[0], from[0]&^tags|tag)
	}
	return headsSize
}

// inHeads tells whether around the header of each frame there is a whole line, and whether
// half of it does: if all packets are of IPv4, without options.
func inHeads(frames []batch.Frame, umem []byte) (lines, halves bool) {
	const version = 0x45
	other := byte(0)
	for _, f := range frames {
		if f.Addr%16 != 2 || int(f.Addr) > len(umem)-8*headWords {
			return false, false
		}
		b := (*[3]byte)(umem[f.Addr+packet.EthernetLen-2:])
		other |= (b[0] ^ byte(packet.EtherTypeIPv4>>8)) | (b[1] ^ byte(packet.EtherTypeIPv4&0xff)) | (b[2] ^ version)
	}
	return true, other == 0
}

func tagOf(seq uint32) uint64 { return uint64(1 + seq%tags) }

// lane is which word of the quads a packet has, and which head and answer.
func lane(i int) int { return i/unitFrames*unitWords + 1 + i%unitFrames }

// findAnswers tells whether all packets in front of end, of those that are not known to be
// finished, have their answers.
func (s *slot) findAnswers(end int) bool {
	if s.hurried == 0 {
		return false
	}
	for tag := tagOf(s.seq); s.packet < end; s.packet++ {
		if a := s.answer(s.packet); atomic.LoadUint64(&a[0])&tags != tag || atomic.LoadUint64(&a[2])&tags != tag {
			return false
		}
	}
	return true
}

func (s *slot) answer(i int) *[answerWords]uint64 {
	return (*[answerWords]uint64)(s.answers[lane(i)*answerWords:])
}

// turns is of the tables by which packets of an answered part were decided on.
func (s *slot) turns(i int) uint32 { return uint32(s.answer(i)[3] >> 32) }

// deliver takes the answers for packets in a row, from the given one on: it writes their
// results, and into their frames what changes there.
func (s *slot) deliver(first int, in []batch.Frame, out []batch.Result, umem []byte) {
	for i, f := range in {
		a := s.answer(first + i)
		r := batch.Result{Addr: f.Addr, Len: uint16(a[2] >> 16), Verdict: batch.Verdict(a[1] >> 48)}
		if r.Verdict.Action() == batch.ActionForward {
			to := (*[packet.EthernetLen + packet.IPv4Len]byte)(umem[f.Addr:])
			*(*uint64)(unsafe.Pointer(&to[0])) = a[0]>>16 | a[1]<<48
			*(*uint32)(unsafe.Pointer(&to[8])) = uint32(a[1] >> 16)
			*(*uint64)(unsafe.Pointer(&to[packet.EthernetLen+4])) = a[2]>>32 | a[3]<<32
		} else {
			r.Addr = uint32(a[0] >> 16)
		}
		out[i] = r
	}
}
