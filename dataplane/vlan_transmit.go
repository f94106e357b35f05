package dataplane

import (
	"encoding/binary"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/prefetch"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// listLogical lists packets of a chunk that leave by logical ports for the physical ports that carry them, with their tags,
// from the first on, and returns their number. It is 0 if the port of the first does not exist any longer, or is a bond
// without a member that transmits.
func (w *worker) listLogical(in []batch.Frame, out []batch.Result) (n int) {
	carrier := w.logical.table.Carrier(out[0].Verdict.Port())
	bonded := int(carrier.Port()) >= len(w.tx)
	if carrier.Tags() > 0 || bonded && !w.single(carrier.Port()) {
		w.prefetchTagged(out)
	}
	if bonded {
		n = w.listBonded(carrier.Port(), in, out)
	} else if carrier.Tags() == 1 {
		n = w.listTagged(in, out)
	}
	if n == 0 && w.list(batch.Frame{Addr: out[0].Addr(), Len: out[0].Len(), Origin: in[0].Origin}, out[0].Verdict.Port()) {
		n = 1
	}
	return n
}

// single reports whether one member of a bond transmits all packets.
func (w *worker) single(bond uint16) bool {
	members := w.logical.table.Bonds().Members(bond)
	return members != nil && members.Single()
}

// tagBurst is the number of frames that are prefetched together to add tags or to hash flows.
const tagBurst = 64

// prefetchTagged prefetches the frames of the next tagBurst results, the last ones of a chunk, unless an earlier call for the
// chunk has: packets of physical and logical ports may alternate.
func (w *worker) prefetchTagged(out []batch.Result) {
	if len(out) <= w.unprefetched {
		n := min(len(out), tagBurst)
		prefetch.WriteAt(w.mem, out[:n])
		w.unprefetched = len(out) - n
	}
}

// longer is added to the word of a frame (batch.Words) that gets a tag.
const longer = fib.TagLen<<32 - fib.TagLen

// putTag adds a tag to the frame at an address.
func putTag(mem []byte, addr, tag uint32) {
	b := headerAt(mem, addr-fib.TagLen)
	moveMACs(b[fib.TagLen:], b[:])
	binary.LittleEndian.PutUint32(b[macsLen:], tag)
}

// listTagged lists packets of VLANs with one tag on physical ports, from the first on, and returns their number. It ends
// at another packet, at the first of a VLAN since the last flush of tallies, and if list would fail. It calls no
// function.
func (w *worker) listTagged(in []batch.Frame, out []batch.Result) (n int) {
	mem, tx, carriers, tallies := w.mem, w.tx, w.logical.table.Carriers(), w.logical.tallies
	frames, results := batch.Words(in), batch.Words(out)
	frames = frames[:len(results)]
	_, _ = carriers[0], tallies[0] // they are not nil
	for ; n < len(results); n++ {
		r := results[n]
		verdict, addr := r>>48, uint32(r)
		port := verdict - uint64(batch.Forward(0))
		if port >= batch.MaxPorts || addr%umem.FrameSize < fib.TagLen {
			break
		}
		carrier, t := carriers.Of(port), &tallies[port]
		via := carrier.PortOfOneTag()
		if via >= uint64(len(tx)) || t.rx == 0 {
			break
		}
		if e := &tx[via]; !e.add(r+longer+(frames[n]>>48-verdict)<<48, uint16(port)) {
			break
		}
		t.tx += packed(1, int(uint16(r>>32)))
		putTag(mem, addr, carrier.Outer())
	}
	return n
}

// listBonded is listTagged for packets of a bond, and of VLANs with one tag on it.
func (w *worker) listBonded(bond uint16, in []batch.Frame, out []batch.Result) (n int) {
	mem, tx, carriers, tallies := w.mem, w.tx, w.logical.table.Carriers(), w.logical.tallies
	members, bonded := w.logical.table.Bonds().Members(bond), &tallies[bond%batch.MaxPorts]
	if members == nil || bonded.rx == 0 {
		return 0
	}
	frames, results := batch.Words(in), batch.Words(out)
	frames = frames[:len(results)]
	seed, via := w.memberSeed(), uint64(members.Port(0))
	for ; n < len(results); n++ {
		r := results[n]
		verdict, addr := r>>48, uint32(r)
		port := verdict - uint64(batch.Forward(0))
		if port >= batch.MaxPorts || addr%umem.FrameSize < fib.TagLen {
			break
		}
		carrier, t := carriers.Of(port), &tallies[port]
		if carrier.Port() != bond || carrier.Tags() > 1 || t.rx == 0 {
			break
		}
		if !members.Single() {
			via = uint64(members.Port(flowHash(mem[addr+packet.EthernetLen:uint64(addr)+r>>32&0xffff], seed)))
		}
		word := r + (frames[n]>>48-verdict)<<48
		if carrier.Tags() == 1 {
			word += longer
		}
		if via >= uint64(len(tx)) || !tx[via].add(word, uint16(port)) {
			break
		}
		t.tx += packed(1, int(uint16(r>>32)))
		if carrier.Tags() == 1 { // the bond counts frames of its VLANs, with tags
			putTag(mem, addr, carrier.Outer())
			bonded.tx += packed(1, int(uint16(word>>32)))
		}
	}
	return n
}

// list lists a packet that leaves by a logical port for the physical port that carries it, with its tags. It
// returns false, and does not, if the port does not exist any longer, or no member of the bond transmits.
func (w *worker) list(f batch.Frame, port uint16) bool {
	carrier, t := w.logical.table.Carrier(port), w.logical.tally(port)
	tags := uint32(carrier.Tags() * fib.TagLen)
	if carrier == 0 || t == nil || f.Addr%umem.FrameSize < tags {
		return false
	}
	via, bond := carrier.Port(), (*logicalTally)(nil)
	if int(via) >= len(w.tx) {
		member, ok := w.memberFor(via, f)
		if bond = w.logical.tally(via); !ok || bond == nil {
			return false
		}
		via = member
	}
	length := int(f.Len)
	f.Addr, f.Len = f.Addr-tags, f.Len+uint16(tags)
	if int(via) >= len(w.tx) || !w.tx[via].add(f.Word(), port) {
		return false
	}
	t.tx += packed(1, length)
	if tags > 0 {
		putTag(w.mem, f.Addr+tags, carrier.Outer())
	}
	if inner := carrier.Tag(1); tags > fib.TagLen {
		putTag(w.mem, f.Addr+fib.TagLen, carrier.Outer())
		binary.BigEndian.PutUint32(w.mem[f.Addr+macsLen+fib.TagLen:], uint32(inner.EtherType())<<16|uint32(inner.VID()))
	}
	if bond != nil && tags > 0 { // counts frames of its VLANs, with tags
		bond.tx += packed(1, int(f.Len))
	}
	return true
}

// untagged returns a copy of a transmitted frame of a port without its tags. The kernel has the frame,
// so it is not changed. The copy is valid until the next call.
func (w *worker) untagged(number uint16, frame []byte) []byte {
	n := w.logical.tagBytes(number)
	to := w.logical.scratch[:len(frame)-n]
	copy(to, frame[:macsLen])
	copy(to[macsLen:], frame[macsLen+n:])
	return to
}
