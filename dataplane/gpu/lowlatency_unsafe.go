package gpu

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/ordered"
	"github.com/warproute/warproute/packet"
)

// The low-latency path saves the GPU's accesses to frames over PCIe: descriptors have inlined headers,
// and the GPU writes inline completions to the mailbox. mailbox.h has the layout.

// inlineHeaders copies headers beside the next descriptors, from 2 bytes before each frame on. The tag
// of the tile replaces these 2 bytes. It returns the flag for the tile header: 0 if there are too many
// packets, or if a frame does not begin 2 bytes after a multiple of 4.
func (s *slot) inlineHeaders(frames []batch.Frame, umem []byte) (flag uint32) {
	if len(frames) > len(s.headers)/cacheLineWords*cacheLineFrames {
		return 0
	}
	next := s.block.last + 1
	if next/tagCount != s.tagRound { // tags wrapped: remove the old ones
		s.tagRound = next / tagCount
		clear(s.headers)
		clear(s.shortHeaders)
		clear(s.completions)
	}
	tag := tagOf(next)
	mem, last := unsafe.Pointer(unsafe.SliceData(umem)), len(umem)-8*headerWords
	other, descWords := uint64(0), 0
	for i, w := 0, firstDescWord; i < len(frames); i, w = i+1, nextDescWord(w) {
		addr := frames[i].Addr
		if addr%4 != 2 || int(addr) > last {
			return 0
		}
		from := (*shortHeader)(unsafe.Add(mem, addr+shortHeaderAt-2))
		other |= from[0]>>16 ^ plainIPv4
		to := &s.shortHeaders[w]
		to[1] = from[1]
		to[2], to[3] = from[2], from[3]
		s.tagged[w], descWords = from[0]&^tagCount|tag, w+1
	}
	if other&0xffffff == 0 {
		ordered.StoreLines(s.shortHeaders, s.tagged[:descWords])
		return inlineShortHeadersFlag
	}
	for i, w := 0, firstDescWord; i < len(frames); i, w = i+1, nextDescWord(w) {
		from := (*header)(unsafe.Add(mem, frames[i].Addr-2))
		to := &s.headers[w]
		to[1] = from[1]
		*(*[6]uint64)(to[2:]) = *(*[6]uint64)(from[2:])
		s.tagged[w] = from[0]&^tagCount | tag
	}
	ordered.StoreLines(s.headers, s.tagged[:descWords])
	return inlineHeadersFlag
}

// plainIPv4 is the EtherType and the first byte of an IPv4 header without options, as loaded.
const plainIPv4 = 0x45<<16 | uint64(packet.EtherTypeIPv4)>>8 | uint64(packet.EtherTypeIPv4)&0xff<<8

func tagOf(number uint32) uint64 { return uint64(1 + number%tagCount) }

// The first word of each descriptor cache line is no packet's. A packet's header and completion have the index of its word.
const firstDescWord = 1

func nextDescWord(w int) int { return w + 1 + (w%cacheLineWords+1)/cacheLineWords }

func descWordOf(packet int) int {
	return packet/cacheLineFrames*cacheLineWords + firstDescWord + packet%cacheLineFrames
}

// pollCompletions reports whether all unfinished packets in front of end have inline completions.
func (s *slot) pollCompletions(end int) bool {
	if s.inlined == 0 {
		return false
	}
	tag := tagOf(s.number)
	for w := descWordOf(s.packet); s.packet < end; s.packet, w = s.packet+1, nextDescWord(w) {
		if c := &s.completions[w]; atomic.LoadUint64(&c[0])&tagCount != tag || atomic.LoadUint64(&c[2])&tagCount != tag {
			return false
		}
	}
	return true
}

// generation returns the table generation of a packet's inline completion.
func (s *slot) generation(packet int) uint32 {
	return uint32(s.completions[descWordOf(packet)][3] >> 32)
}

// applyCompletions applies the inline completions of packets from first on: it writes their results and
// the rewritten bytes of their frames, with VLAN tags.
func (s *slot) applyCompletions(first int, in []batch.Frame, out []batch.Result, umem []byte, tags *fib.TagWords) {
	out = out[:len(in)]
	for i, w := 0, descWordOf(first); i < len(in); i, w = i+1, nextDescWord(w) {
		f, c := in[i], &s.completions[w]
		arg, v := f.Addr, batch.Verdict(c[1]>>48)
		if v.Action() == batch.ActionForward {
			ip := unsafe.Pointer((*[packet.IPv4Len]byte)(umem[f.Addr+packet.EthernetLen:]))
			*(*uint64)(unsafe.Add(ip, 4)) = c[2]>>32 | c[3]<<32
			if tag := tags.Of(v.Port()); tag != 0 && arg >= fib.TagLen {
				arg -= fib.TagLen
				binary.LittleEndian.PutUint32(umem[arg+fib.MACsLen:], tag)
			}
			macs := unsafe.Pointer((*[fib.MACsLen]byte)(umem[arg:]))
			*(*uint64)(macs) = c[0]>>16 | c[1]<<48
			*(*uint32)(unsafe.Add(macs, 8)) = uint32(c[1] >> 16)
		} else {
			arg = uint32(c[0] >> 16)
		}
		out[i] = batch.MakeResult(arg, uint16(c[2]>>16), v)
	}
}
