package cpu

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/prefetch"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// ipsec is what an engine protects packets with.
type ipsec struct {
	gateway *gateway.Gateway
	worker  int // among those that share the gateway's associations
	mtu     int // of the packet that was too large last
	// Whether an association is there for the latest fragment to be reassembled.
	expected bool
	keys     uint32 // a device has those below, see Begin
	lookups  gateway.Lookups

	// The packets of a block that are in clear, for the policies: their index in the block,
	// the association that they arrived by, and what the policies of both directions say.
	n            int
	at           [block]int32
	by           [block]*esp.SA
	l4           [block]packet.L4 // of IPv6 packets
	flows        [block]gateway.Flow
	enter, leave [block]esp.Error
	sas          [block]*esp.SA
	mtus         [block]int // of the way of such an association

	// The packets of a block that arrived protected: their index in it, and by what.
	sealed struct {
		n  int
		at [block]int32
		by [block]*esp.SA
	}

	several [block]*esp.SA // see distinct and opened
	seqs    [block]uint64  // see opened
	seen    uint64         // of associations: of no use, but for having been read
}

// Secure has the engine apply a gateway's policies to every packet, as one of its
// workers.
func (e *Engine) Secure(g *gateway.Gateway, worker int) {
	e.ipsec = &ipsec{gateway: g, worker: worker, lookups: gateway.NewLookups()}
}

// secure verifies the sources of a chunk, and then applies the policies to it, before
// anything else is decided: packets that arrived protected become those that they carried,
// packets that are to be protected become ESP, and what may not pass is dropped. The rest of
// the engine routes what is there then. Where there are tasks, what one can be made of is
// left to a device.
//
// The headers of a block are asked for while the one before is worked off.
func (e *Engine) secure(in []batch.Frame, out []batch.Result, tasks []Task) {
	e.ipsec.gateway.Clock.Set(batch.Clock())
	clear(out)
	verify := e.fib.Verifies()
	prefetch.ReadAt(e.mem, in[:min(block, len(in))])
	for start := 0; start < len(in); start += block {
		end := min(start+block, len(in))
		prefetch.ReadAt(e.mem, in[end:min(end+block, len(in))])
		var some []Task
		if tasks != nil {
			some = tasks[start:end]
		}
		if verify {
			e.verify(in[start:end], out[start:end])
		}
		e.secureBlock(in[start:end], out[start:end], some, nil)
	}
}

// secureBlock is secure for a block of packets: those that were received, of which some may
// be dropped already, or, if by is not nil, that arrived by an association and were opened.
//
// The policies are looked up for all packets at once, and the associations that they
// name are read before the first packet is protected, so that cache misses overlap.
func (e *Engine) secureBlock(in []batch.Frame, out []batch.Result, tasks []Task, by *esp.SA) {
	s := e.ipsec
	s.n, s.sealed.n = 0, 0
	for i := range in {
		if out[i].Verdict != 0 {
			if t := taskOf(tasks, i); t != nil {
				t.Kind = Settled
			}
			continue
		}
		if in[i].Port&batch.Secured != 0 {
			continue
		}
		sealed, reason := e.arrive(e.frame(in[i]), i, by)
		switch {
		case sealed != nil:
			s.sealed.at[s.sealed.n], s.sealed.by[s.sealed.n] = int32(i), sealed
			s.sealed.n++
		case reason != ok:
			e.note(&in[i], &out[i], taskOf(tasks, i), reason)
		}
	}
	e.openAll(in, out, tasks, by != nil)
	s.gateway.MayEnterAll(&s.lookups, s.enter[:], s.flows[:s.n], s.by[:])
	s.gateway.ProtectAll(&s.lookups, s.sas[:], s.leave[:], s.flows[:s.n])
	e.checkICMPErrorPolicy(in)
	sas := s.distinct(s.sas[:s.n])
	s.seen += esp.Touch(sas, s.worker, tasks == nil)
	e.expect()
	esp.Lease(sas, s.worker)
	for j := range s.n {
		i := int(s.at[j])
		t := taskOf(tasks, i)
		if reason := e.enterAndLeave(&in[i], j, t); reason != ok {
			e.note(&in[i], &out[i], t, reason)
		} else {
			in[i].Port |= batch.Secured
		}
	}
	for _, sa := range sas {
		sa.Release(s.worker)
	}
}

// taskOf returns the task of packet i, nil if there is no device to have it.
func taskOf(tasks []Task, i int) *Task {
	if tasks == nil {
		return nil
	}
	return &tasks[i]
}

// distinct returns the associations of packets, each once where its packets are in a row, until
// it is called again.
func (s *ipsec) distinct(of []*esp.SA) []*esp.SA {
	n := 0
	var last *esp.SA
	for _, sa := range of {
		if sa != nil && sa != last {
			s.several[n] = sa
			n++
			last = sa
		}
	}
	return s.several[:n]
}

// expect tells the associations of what is to leave by them, and asks what fits their way.
func (e *Engine) expect() {
	s := e.ipsec
	var last *esp.SA
	mtu := 0
	for j, sa := range s.sas[:s.n] {
		if sa == nil {
			continue
		}
		if sa != last {
			last, mtu = sa, e.mtuOf(sa)
		}
		s.mtus[j] = mtu
		sa.Expect(s.worker)
	}
}

// note writes down what the policies made of a packet. One that a device is to open has
// not met them, and one without an association will when there is one.
func (e *Engine) note(f *batch.Frame, r *batch.Result, t *Task, reason batch.Reason) {
	if t != nil && reason != ok {
		t.Kind = Settled
	}
	if t != nil && t.Kind == Open {
		return
	}
	if reason != ok {
		*r = batch.Result{Verdict: batch.Drop(reason)}
		if reason == batch.MTUExceeded {
			r.Len = uint16(e.ipsec.mtu)
			if f.Port&batch.Secured != 0 { // it is ESP by now
				r.Addr = batch.MayCut
			}
			return
		}
		if reason == batch.XfrmInNoStates {
			return
		}
		if reason == batch.FragmentsMissing && e.ipsec.expected {
			r.Addr = batch.Expected
		}
	}
	f.Port |= batch.Secured
}

// hop returns the next hop to an address.
func (e *Engine) hop(dst netip.Addr) fib.NextHop {
	return fib.NextHop(atomic.LoadUint64(&e.words.NextHops[e.lookup(dst)]))
}

// lookup returns the number of the next hop to an address.
func (e *Engine) lookup(dst netip.Addr) fib.ID {
	if dst.Is4() {
		b := dst.As4()
		return e.fib.IPv4.Lookup(binary.BigEndian.Uint32(b[:]))
	}
	return e.fib.IPv6.Lookup(dst.As16())
}

// room returns the memory of a frame, and where in it its packet begins and how long it
// is, L2 padding included.
func (e *Engine) room(f batch.Frame) (buf []byte, at, n int) {
	start, size := f.Addr&^(umem.FrameSize-1), uint32(umem.FrameSize)
	if e.isLarge(f) {
		size = e.largeSize
	}
	return e.mem[start : start+size], int(f.Addr-start) + packet.EthernetLen, int(f.Len) - packet.EthernetLen
}

// isLarge reports whether a packet lies in a large frame. It begins in the first part of it.
func (e *Engine) isLarge(f batch.Frame) bool { return int(f.Addr) >= e.large }

// moved has a frame be the packet that now lies in its memory.
func (e *Engine) moved(f *batch.Frame, at, n int) {
	f.Addr = f.Addr&^(umem.FrameSize-1) + uint32(at-packet.EthernetLen)
	f.Len = uint16(packet.EthernetLen + n)
	b := e.frame(*f)
	(*packet.Ethernet)(b).SetType(etherType(b[packet.EthernetLen:]))
}

// reasonOf is the drop that stands for an error, ok for none.
func reasonOf(err esp.Error) batch.Reason {
	switch err {
	case esp.OK:
		return ok
	case esp.PolicyRefused:
		return batch.XfrmPolicyRefused
	}
	return batch.XfrmInHdrError + batch.Reason(err-esp.InHdrError)
}
