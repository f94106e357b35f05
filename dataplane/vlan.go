package dataplane

import (
	"encoding/binary"
	"math/bits"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/prefetch"
)

// The worker removes the tags of received frames and makes the VLAN's logical port their origin (fib.VLANs), so that
// engines see untagged frames of more ports. The engine that writes the MAC addresses of a forwarded frame also adds
// its tag (fib.VLANs.TagsByEngines). The worker adds two tags, and those of a gateway, before it transmits. Removing and
// adding move the MAC addresses by four bytes per tag, in the headroom of the frame.

const macsLen = fib.MACsLen

// EtherTypes as loaded from a frame in little-endian order.
const (
	tpidQ     = 0x0081
	tpidAD    = 0xa888
	typesOfIP = 0x0008 | 0xdd86 // bits that are set in that of IPv4 or IPv6
)

// taggedLen is the length of an Ethernet header with one tag.
const taggedLen = macsLen + fib.TagLen + 2

// moveMACs moves the MAC addresses of a frame.
func moveMACs(from, to []byte) {
	first, rest := binary.LittleEndian.Uint64(from), binary.LittleEndian.Uint32(from[8:])
	binary.LittleEndian.PutUint64(to, first)
	binary.LittleEndian.PutUint32(to[8:], rest)
}

// untag removes the VLAN tags of a burst of frames that a port received, of a member of a bond those of VLANs on the
// bond. It returns how many frames it keeps, because it drops those of unknown VLANs, the length that all had, and whether it
// has brought their headers into the cache.
func (w *worker) untag(frames []batch.Frame) (kept, bytes int, cached bool) {
	l, parent := &w.logical, frames[0].Origin.Port()
	if bond := l.table.Bonds().Master(parent); bond != 0 {
		if bytes, ok := w.enterBond(bond, frames); ok && !l.table.Tagged(bond) {
			return len(frames), bytes, false
		} else if ok {
			parent = bond
		}
	}
	removal := l.removalFrom(parent)
	prefetch.ReadAt(w.mem, frames) // for reading: with a GPU, nothing here writes to most of them
	for i := 0; i < len(frames); i++ {
		if w.capture == nil {
			n, length := removal.apply(w.mem, frames[i:], frames[kept:])
			kept, bytes = kept+n, bytes+length
			if i += n; i == len(frames) {
				break
			}
		}
		f := frames[i]
		bytes += int(f.Len)
		if reason := w.removeTags(&f); reason != batch.Unprocessed {
			w.drop(f, reason)
			continue
		}
		frames[kept] = f
		kept++
	}
	return kept, bytes, true
}

// removal removes single tags of frames that a port received, in words (batch.Words). Its fields are operands of the loops
// that are the same for all frames.
type removal struct {
	children *fib.Children
	tallies  *[batch.MaxPorts]logicalTally
	origin   uint64      // of the frames
	frame    uint64      // added to the word of a frame: removes the tag and the origin
	tally    packedTally // added to the tally, with the length and origin of the frame
}

func (l *logicalPorts) removalFrom(parent uint16) removal {
	origin := uint64(parent)
	return removal{
		children: l.table.Children(parent), tallies: l.tallies, origin: origin,
		frame: fib.TagLen - (origin<<48 + fib.TagLen<<32), tally: talliedPacket - packedTally(origin<<16+fib.TagLen),
	}
}

// Masks of the eight bytes behind the MAC addresses: a tag, the EtherType behind it, and two more.
const (
	notIP   = 0xffff &^ typesOfIP  // bits of an EtherType that those of tags have, and those of IP do not
	tagMask = notIP<<32 | 0xffff   // equal to tpidQ for a single tag in front of an IP packet
	vidMask = tagMask | 0xff0f<<16 // with the VID, but without the priority
)

// apply copies frames, those with one 802.1Q tag in front of an IP packet without it, from the first one on, and returns
// their number and the length that they had. It ends at a frame with other tags, or of an unknown VLAN. MAC addresses
// stay where they are, because engines overwrite them.
func (r *removal) apply(mem []byte, from, to []batch.Frame) (n, bytes int) {
	n, bytes = r.applyToVLAN(mem, from, to)
	k, rest := r.applyToAny(mem, from[n:], to[n:])
	return n + k, bytes + rest
}

// applyToVLAN copies the first frames as apply does, as long as they have the VLAN of the first one. It calls no function.
func (r *removal) applyToVLAN(mem []byte, from, to []batch.Frame) (n, bytes int) {
	in, out := batch.Words(from), batch.Words(to)
	tag := binary.LittleEndian.Uint64(headerAt(mem, uint32(in[0]))[macsLen:]) & vidMask
	number := r.children.Of(bits.ReverseBytes16(uint16(tag >> 16)))
	t := &r.tallies[number%batch.MaxPorts]
	if tag&tagMask != tpidQ || t.rx == 0 {
		return 0, 0
	}
	frame, sum := r.frame+uint64(number)<<48, uint64(0)
	out = out[:len(in)]
	for ; n < len(in); n++ {
		f := in[n]
		if binary.LittleEndian.Uint64(headerAt(mem, uint32(f))[macsLen:])&vidMask != tag || uint16(f>>32) < taggedLen {
			break
		}
		out[n] = f + frame
		sum += f >> 32
	}
	t.rx += packedTally(sum) + packedTally(n)*r.tally
	return n, int(sum - uint64(n)*r.origin<<16)
}

// applyToAny does what apply does, frame by frame. It calls no function.
func (r *removal) applyToAny(mem []byte, from, to []batch.Frame) (n, bytes int) {
	children, tallies, in, out := r.children, r.tallies, batch.Words(from), batch.Words(to)
	frame, tally, sum := r.frame, r.tally, uint64(0)
	out = out[:len(in)]
	_, _ = children[0], tallies[0] // they are not nil
	for ; n < len(in); n++ {
		f := in[n]
		tag := binary.LittleEndian.Uint64(headerAt(mem, uint32(f))[macsLen:])
		number := children.Of(bits.ReverseBytes16(uint16(tag >> 16)))
		t, rest := &tallies[number%batch.MaxPorts], f>>32
		if tag&tagMask == tpidQ && uint16(rest) >= taggedLen && t.rx != 0 {
			t.rx += packedTally(rest) + tally
			f += frame + uint64(number)<<48
		} else if tag&notIP != 0 {
			break
		}
		out[n] = f
		sum += rest
	}
	return n, int(sum - uint64(n)*r.origin<<16)
}

// removeTags removes the tags of a frame, and sets its origin to the port of its VLAN. As in Linux, a tag
// with VID 0 that is of no VLAN only has a priority. The reason to drop the frame is batch.Unprocessed
// for none.
func (w *worker) removeTags(f *batch.Frame) batch.Reason {
	b := w.mem[f.Addr : uint64(f.Addr)+uint64(f.Len)]
	port, n := f.Origin.Port(), 0
	for len(b) >= n+macsLen+2 {
		tag, ok := fib.MakeTag(binary.BigEndian.Uint16(b[n+macsLen:]), 0)
		if !ok {
			break
		}
		if n == fib.MaxTags*fib.TagLen {
			return batch.VLANUnknown
		}
		if len(b) < n+macsLen+fib.TagLen+2 {
			return batch.TooShort
		}
		tag |= fib.Tag(binary.BigEndian.Uint16(b[n+macsLen+2:]) & 0xfff)
		child, known := w.logical.table.Child(port, tag)
		if known {
			port = child
		} else if tag.VID() != 0 {
			return batch.VLANUnknown
		}
		n += fib.TagLen
	}
	if n == 0 { // the frame ends before its EtherType
		return batch.Unprocessed
	}
	if port != f.Origin.Port() {
		t := w.logical.tally(port)
		if t == nil {
			return batch.VLANUnknown
		}
		t.rx += packed(1, int(f.Len)-n)
	}
	moveMACs(b, b[n:])
	*f = batch.Frame{Addr: f.Addr + uint32(n), Len: f.Len - uint16(n), Origin: batch.From(port)}
	return batch.Unprocessed
}
