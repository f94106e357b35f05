package cpu

import (
	"sync/atomic"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
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
}

// Secure has the engine apply a gateway's policies to every packet, as one of its
// workers.
func (e *Engine) Secure(g *gateway.Gateway, worker int) { e.ipsec = &ipsec{gateway: g, worker: worker} }

// secure applies the policies to a chunk, before anything else is decided: packets that
// arrived protected become those that they carried, packets that are to be protected
// become ESP, and what may not pass is dropped. The rest of the engine routes what is
// there then.
func (e *Engine) secure(in []batch.Frame, out []batch.Result) {
	e.ipsec.gateway.Clock.Set(batch.Clock())
	for i := range in {
		out[i] = batch.Result{}
		if in[i].Port&batch.Secured == 0 {
			e.note(&in[i], &out[i], e.secureOne(&in[i], nil, nil))
		}
	}
}

// note writes down what the policies made of a packet.
func (e *Engine) note(f *batch.Frame, r *batch.Result, reason batch.Reason) {
	if reason != ok {
		*r = batch.Result{Verdict: batch.Drop(reason)}
		if reason == batch.MTUExceeded { // and not protected yet
			r.Len = uint16(e.ipsec.mtu)
			return
		}
	}
	f.Port |= batch.Secured
}

// maxNested is how many times a packet may be protected on arrival.
const maxNested = 4

// secureOne takes a packet past the policies of both directions: one that was received,
// or that arrived by an association and was opened. What a task can be made of is left
// to a device.
func (e *Engine) secureOne(f *batch.Frame, by *esp.SA, t *Task) batch.Reason {
	depth := 0
	if by != nil {
		depth = 1
	}
	for ; ; depth++ {
		reason, l4 := e.look(*f)
		if reason == ok || reason == batch.TTLExpired { // our own packets end here
			if s := e.arrivedBy(*f); s != nil {
				if depth == maxNested {
					return batch.XfrmInHdrError
				}
				if depth == 0 && t.fits(f, s) {
					return reasonOf(e.find(f, s, t))
				}
				if err := e.decapsulate(f, s); err != esp.OK {
					return reasonOf(err)
				}
				by = s
				continue
			}
		}
		if reason != ok {
			return reason
		}
		return e.enterAndLeave(f, by, l4, t)
	}
}

// look validates a packet; l4 is of an IPv6 one.
func (e *Engine) look(f batch.Frame) (reason batch.Reason, l4 packet.L4) {
	b := e.frame(f)
	if len(b) < packet.EthernetLen {
		return batch.TooShort, l4
	}
	switch (*packet.Ethernet)(b).Type() {
	case packet.EtherTypeIPv4:
		return validateIPv4(b[packet.EthernetLen:]), l4
	case packet.EtherTypeIPv6:
		reason = validateIPv6(b[packet.EthernetLen:], &l4)
		return reason, l4
	}
	return batch.EtherType, l4
}

// arrivedBy returns the association that a packet is protected by, nil if it is in clear
// or passes through to somebody else.
func (e *Engine) arrivedBy(f batch.Frame) *esp.SA {
	p := e.frame(f)[packet.EthernetLen:]
	if spi, _, is := esp.Inbound(p); is {
		return e.ipsec.gateway.Inbound(spi, esp.Destination(p))
	}
	return nil
}

// room returns the memory of a frame, and where in it its packet begins and how long it
// is, L2 padding included.
func (e *Engine) room(f batch.Frame) (buf []byte, at, n int) {
	start := f.Addr &^ (umem.FrameSize - 1)
	return e.mem[start : start+umem.FrameSize], int(f.Addr-start) + packet.EthernetLen, int(f.Len) - packet.EthernetLen
}

// moved has a frame be the packet that now lies in its memory.
func (e *Engine) moved(f *batch.Frame, at, n int) {
	f.Addr = f.Addr&^(umem.FrameSize-1) + uint32(at-packet.EthernetLen)
	f.Len = uint16(packet.EthernetLen + n)
	b := e.frame(*f)
	kind := packet.EtherTypeIPv4
	if b[packet.EthernetLen]>>4 == 6 {
		kind = packet.EtherTypeIPv6
	}
	(*packet.Ethernet)(b).SetType(kind)
}

func (e *Engine) decapsulate(f *batch.Frame, s *esp.SA) esp.Error {
	buf, at, n := e.room(*f)
	at, n, err := s.Decapsulate(e.ipsec.worker, buf, at, n)
	if err == esp.OK {
		e.moved(f, at, n)
	}
	return err
}

// enterAndLeave checks that a valid packet came as it should have, and protects it as it
// leaves if it has to be.
func (e *Engine) enterAndLeave(f *batch.Frame, by *esp.SA, l4 packet.L4, t *Task) batch.Reason {
	b := e.frame(*f)
	p, ipv4 := b[packet.EthernetLen:], (*packet.Ethernet)(b).Type() == packet.EtherTypeIPv4
	var flow gateway.Flow
	size := 0
	if ipv4 {
		flow, size = gateway.FlowIPv4(p), (*packet.IPv4)(p).TotalLen()
	} else {
		flow, size = gateway.FlowIPv6(p, l4), packet.IPv6Len+(*packet.IPv6)(p).PayloadLen()
	}
	if f.Port&batch.Own == 0 {
		if err := e.ipsec.gateway.MayEnter(&flow, by); err != esp.OK {
			return reasonOf(err)
		}
	}
	s, err := e.ipsec.gateway.Protect(&flow)
	if err != esp.OK {
		return reasonOf(err)
	}
	if s == nil {
		return ok
	}
	header := packet.IPv6Len
	if ipv4 {
		header = packet.IPv4Len
	}
	if e.ipsec.mtu = s.InnerMTU(e.mtuOf(s), header); size > e.ipsec.mtu {
		return batch.MTUExceeded
	}
	repair := e.repair[f.Ingress()]
	if ipv4 {
		if repair {
			packet.CompleteIPv4(p[:size])
		}
		if s.Mode() == esp.Tunnel { // else what leaves still has the header
			(*packet.IPv4)(p).DecrementTTL()
		}
	} else {
		if repair && !l4.Fragment {
			packet.CompleteIPv6(p[:size], l4.Proto, l4.Offset)
		}
		if s.Mode() == esp.Tunnel {
			(*packet.IPv6)(p).DecrementHopLimit()
		}
	}
	if t.fits(f, s) {
		return reasonOf(e.prepare(f, size, s, t))
	}
	buf, at, _ := e.room(*f)
	at, n, err := s.Encapsulate(e.ipsec.worker, buf, at, size)
	if err != esp.OK {
		return reasonOf(err)
	}
	e.moved(f, at, n)
	return ok
}

// mtuOf returns what fits through the port by which packets of an association leave; it
// is large where no route leads there, as the packets find out by themselves.
func (e *Engine) mtuOf(s *esp.SA) int {
	generation := e.fib.Generation()
	if mtu, is := s.MTU(generation); is {
		return mtu
	}
	mtu := 1<<16 - 1
	dst := s.Dst()
	var id fib.ID
	if dst.Is4() {
		b := dst.As4()
		id = e.fib.IPv4.Lookup(uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3]))
	} else {
		b := dst.As16()
		id = e.fib.IPv6.Lookup(b)
	}
	if hop := fib.NextHop(atomic.LoadUint64(&e.words.NextHops[id])); hop.Kind() == fib.KindForward {
		adjacency := hop.Index()
		if hop.Group() { // the paths of a group are taken to be alike
			adjacency = e.bucket(adjacency, 0)
		}
		adj := fib.Adjacency(atomic.LoadUint64(&e.words.Adjacencies[adjacency]))
		mtu = int(fib.Port(atomic.LoadUint64(&e.words.Ports[adj.Port()])).MTU())
	}
	s.SetMTU(generation, mtu)
	return mtu
}

// reasonOf is the drop that stands for an error, ok for none.
func reasonOf(err esp.Error) batch.Reason {
	if err == esp.OK {
		return ok
	}
	return batch.XfrmInHdrError + batch.Reason(err-esp.InHdrError)
}
