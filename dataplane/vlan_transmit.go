package dataplane

import (
	"encoding/binary"
	"math/bits"

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
	adds := !w.logical.table.TagsByEngines()
	if adds || carrier.Tags() > 1 || bonded && !w.single(carrier.Port()) {
		w.prepare(out, adds)
		if out = out[:len(out)-w.unprepared]; out[0].Verdict.Action() != batch.ActionForward {
			return 0
		}
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

// tagBurst is the number of frames that are prepared together.
const tagBurst = 64

// prepare prefetches the frames of the next tagBurst results, the last ones of a chunk, to hash their flows or to add tags,
// unless an earlier call for the chunk has: packets of physical and logical ports may alternate. It adds the tags that the
// engine leaves to the worker, as the engine would.
func (w *worker) prepare(out []batch.Result, adds bool) {
	if len(out) > w.unprepared {
		return
	}
	n := min(len(out), tagBurst)
	w.unprepared = len(out) - n
	prefetch.WriteAt(w.mem, out[:n])
	if !adds {
		return
	}
	carriers := w.logical.table.Carriers()
	for i := range out[:n] {
		r := &out[i]
		port := r.Verdict.Port()
		carrier := carriers.Of(uint64(port))
		switch {
		case r.Verdict.Action() != batch.ActionForward || carrier.Tags() != 1:
		case r.Addr()%umem.FrameSize < fib.TagLen:
			*r = batch.DropFor(batch.PortDown) // no room: only an engine that failed asks for this
		default:
			putTag(w.mem, r.Addr(), carrier.Outer())
			*r = batch.ForwardTo(port, r.Addr()-fib.TagLen, r.Len()+fib.TagLen)
		}
	}
}

// putTag adds a tag to the frame at an address.
func putTag(mem []byte, addr, tag uint32) {
	b := headerAt(mem, addr-fib.TagLen)
	moveMACs(b[fib.TagLen:], b[:])
	binary.LittleEndian.PutUint32(b[macsLen:], tag)
}

// listTagged lists packets of VLANs with one tag, which they have, on physical ports, from the first on, and returns
// their number. It ends at another packet, at the first of a VLAN since the last flush of tallies, and if list would fail.
func (w *worker) listTagged(in []batch.Frame, out []batch.Result) (n int) {
	n = w.listVLAN(in, out)
	return n + w.listVLANs(in[n:], out[n:])
}

// listVLAN lists the first packets as listTagged does, as long as they are of the VLAN of the first one.
func (w *worker) listVLAN(in []batch.Frame, out []batch.Result) (n int) {
	port := uint64(out[0].Verdict) - uint64(batch.Forward(0))
	if port >= batch.MaxPorts {
		return 0
	}
	via, t := w.logical.table.Carriers().Of(port).PortOfOneTag(), &w.logical.tallies[port]
	if via >= uint64(len(w.tx)) || t.rx == 0 {
		return 0
	}
	n, bytes := w.tx[via].addAll(uint16(port), batch.Words(in), batch.Words(out))
	t.tx += packed(n, bytes-n*fib.TagLen)
	return n
}

// listVLANs does what listTagged does, packet by packet. It calls no function.
func (w *worker) listVLANs(in []batch.Frame, out []batch.Result) (n int) {
	tx, carriers, tallies := w.tx, w.logical.table.Carriers(), w.logical.tallies
	frames, results := batch.Words(in), batch.Words(out)
	frames = frames[:len(results)]
	_, _ = carriers[0], tallies[0] // they are not nil
	for ; n < len(results); n++ {
		r := results[n]
		verdict := r >> 48
		port := verdict - uint64(batch.Forward(0))
		if port >= batch.MaxPorts {
			break
		}
		via, t := carriers.Of(port).PortOfOneTag(), &tallies[port]
		if via >= uint64(len(tx)) || t.rx == 0 {
			break
		}
		if e := &tx[via]; !e.add(r+(frames[n]>>48-verdict)<<48, uint16(port)) {
			break
		}
		t.tx += talliedPacket - fib.TagLen + packedTally(r>>32&0xffff)
	}
	return n
}

// listBonded does what listTagged does for packets of a bond, and of VLANs with one tag on it.
func (w *worker) listBonded(bond uint16, in []batch.Frame, out []batch.Result) (n int) {
	mem, tx, carriers, tallies := w.mem, w.tx, w.logical.table.Carriers(), w.logical.tallies
	members, bonded := w.logical.table.Bonds().Members(bond), &tallies[bond%batch.MaxPorts]
	if members == nil || bonded.rx == 0 {
		return 0
	}
	frames, results := batch.Words(in), batch.Words(out)
	frames = frames[:len(results)]
	seed, via := w.memberSeed(), uint64(members.Port(0))
	if members.Single() && via < uint64(len(tx)) {
		var bytes int
		n, bytes = tx[via].addAll(bond, frames, results)
		bonded.tx += packed(n, bytes)
	}
	for ; n < len(results); n++ {
		r := results[n]
		verdict, addr, length := r>>48, uint32(r), r>>32&0xffff
		port := verdict - uint64(batch.Forward(0))
		if port >= batch.MaxPorts {
			break
		}
		carrier, t := carriers.Of(port), &tallies[port]
		if carrier.Port() != bond || carrier.Tags() > 1 || t.rx == 0 {
			break
		}
		tag := uint32(carrier.Tags() * fib.TagLen)
		if !members.Single() {
			via = uint64(members.Port(flowHash(mem[addr+tag+packet.EthernetLen:uint64(addr)+length], seed)))
		}
		if via >= uint64(len(tx)) || !tx[via].add(r+(frames[n]>>48-verdict)<<48, uint16(port)) {
			break
		}
		t.tx += talliedPacket + packedTally(length) - packedTally(tag)
		if tag > 0 { // the bond counts frames of its VLANs, with tags
			bonded.tx += talliedPacket + packedTally(length)
		}
	}
	return n
}

// list lists a packet that leaves by a logical port for the physical port that carries it. If its port has two tags, list adds
// them; a single one is in the frame. It returns false, and does not, if the port does not exist any longer, or no member of
// the bond transmits.
func (w *worker) list(f batch.Frame, port uint16) bool {
	carrier, t := w.logical.table.Carrier(port), w.logical.tally(port)
	has, added := carrier.Tags()*fib.TagLen, 0
	if carrier.Tags() > 1 {
		has, added = 0, has
	}
	if carrier == 0 || t == nil || int(f.Addr%umem.FrameSize) < added {
		return false
	}
	via, bond := carrier.Port(), (*logicalTally)(nil)
	if int(via) >= len(w.tx) {
		member, ok := w.memberFor(via, batch.Frame{Addr: f.Addr + uint32(has), Len: f.Len - uint16(has)})
		if bond = w.logical.tally(via); !ok || bond == nil {
			return false
		}
		via = member
	}
	length := int(f.Len) - has
	f.Addr, f.Len = f.Addr-uint32(added), f.Len+uint16(added)
	if int(via) >= len(w.tx) || !w.tx[via].add(f.Word(), port) {
		return false
	}
	t.tx += packed(1, length)
	if added > 0 {
		outer, inner := carrier.Outer(), carrier.Tag(1)
		putTag(w.mem, f.Addr+2*fib.TagLen, bits.ReverseBytes32(uint32(inner.EtherType())<<16|uint32(inner.VID())))
		putTag(w.mem, f.Addr+fib.TagLen, outer)
	}
	if bond != nil && has+added > 0 { // counts frames of its VLANs, with tags
		bond.tx += packed(1, int(f.Len))
	}
	return true
}

// tagBytesOf returns the length of the tags of a frame.
func tagBytesOf(frame []byte) (n int) {
	for ; n < fib.MaxTags*fib.TagLen && len(frame) >= n+taggedLen; n += fib.TagLen {
		if _, ok := fib.MakeTag(binary.BigEndian.Uint16(frame[n+macsLen:]), 0); !ok {
			break
		}
	}
	return n
}

// untagged returns a copy of a frame without n bytes of tags. The kernel may have the frame, so it is not changed. The
// copy is valid until the next call.
func (w *worker) untagged(frame []byte, n int) []byte {
	to := w.logical.scratch[:len(frame)-n]
	copy(to, frame[:macsLen])
	copy(to[macsLen:], frame[macsLen+n:])
	return to
}
