package cpu

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
)

// maxNested is how many times a packet may be protected on arrival.
const maxNested = 4

// arrive validates a packet, and lists it for the policies unless it is protected, by an
// association that is returned, or dropped.
func (e *Engine) arrive(f batch.Frame, i int, by *esp.SA) (sealed *esp.SA, reason batch.Reason) {
	reason, l4 := e.look(f)
	if reason == ok || reason == batch.TTLExpired { // our own packets end here
		s, err := e.arrivedBy(f)
		if s != nil || err != esp.OK {
			return s, reasonOf(err)
		}
	}
	if reason != ok || by == nil && e.partOfESP(f) {
		return nil, reason
	}
	e.ipsec.list(e.frame(f), i, by, l4)
	return nil, ok
}

// openAll takes the packets of a block that arrived protected out of what they arrived in.
// again is whether they came out of a tunnel already.
func (e *Engine) openAll(in []batch.Frame, out []batch.Result, tasks []Task, again bool) {
	s := e.ipsec
	sealed := s.sealed.by[:s.sealed.n]
	s.seen += esp.Touch(s.distinct(sealed), s.worker, tasks == nil)
	for j, sa := range sealed {
		i := int(s.sealed.at[j])
		t := taskOf(tasks, i)
		if reason := e.open(&in[i], i, again, sa, t); reason != ok {
			e.note(&in[i], &out[i], t, reason)
		}
	}
}

// open takes a packet out of what it arrived in, all of it, and lists it unless it is dropped
// or a device's.
func (e *Engine) open(f *batch.Frame, i int, again bool, s *esp.SA, t *Task) batch.Reason {
	depth := 0
	if again {
		depth = 1
	}
	if depth == 0 && e.fits(t, f, s) {
		return reasonOf(e.find(f, s, t))
	}
	for ; depth < maxNested; depth++ {
		if err := e.decapsulate(f, s); err != esp.OK {
			return reasonOf(err)
		}
		inner, reason := e.arrive(*f, i, s)
		if inner == nil {
			return reason
		}
		s = inner
	}
	return batch.XfrmInHdrError
}

// list lists a valid packet.
func (s *ipsec) list(b []byte, i int, by *esp.SA, l4 packet.L4) {
	n, p := s.n, b[packet.EthernetLen:]
	s.at[n], s.by[n] = int32(i), by
	if p[0]>>4 == 4 {
		gateway.ReadIPv4(&s.flows[n], p)
	} else {
		gateway.ReadIPv6(&s.flows[n], p, l4)
		s.l4[n] = l4
	}
	s.n = n + 1
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
// or passes through to somebody else. It is an error if there is none for what is ours.
func (e *Engine) arrivedBy(f batch.Frame) (*esp.SA, esp.Error) {
	p := e.frame(f)[packet.EthernetLen:]
	spi, _, is := esp.Inbound(p)
	if !is {
		return nil, esp.OK
	}
	dst := esp.Destination(p)
	if s := e.ipsec.gateway.Inbound(spi, dst); s != nil {
		return s, esp.OK
	}
	if e.hop(dst).Kind() == fib.KindLocal {
		return nil, esp.InNoStates
	}
	return nil, esp.OK
}

// partOfESP reports whether a valid packet is a fragment for this host of ESP, or of UDP,
// in which it may be. It meets the policies when it is whole, and what was in it: it goes
// no further than to who collects it.
func (e *Engine) partOfESP(f batch.Frame) bool {
	const protoESP = 50
	p := e.frame(f)[packet.EthernetLen:]
	var proto packet.Protocol
	if p[0]>>4 == 4 {
		h := (*packet.IPv4)(p)
		if !h.Fragmented() {
			return false
		}
		proto = h.Protocol()
	} else {
		if (*packet.IPv6)(p).NextHeader() != packet.Fragment {
			return false
		}
		proto = packet.Protocol(p[packet.IPv6Len])
	}
	return (proto == protoESP || proto == packet.UDP) && e.hop(esp.Destination(p)).Kind() == fib.KindLocal
}

func (e *Engine) decapsulate(f *batch.Frame, s *esp.SA) esp.Error {
	buf, at, n := e.room(*f)
	at, n, err := s.Decapsulate(e.ipsec.worker, buf, at, n)
	if err == esp.OK {
		e.moved(f, at, n)
	}
	return err
}
