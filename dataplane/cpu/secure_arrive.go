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
func (e *Engine) arrive(b []byte, i int, by *esp.SA) (sealed *esp.SA, reason batch.Reason) {
	if len(b) < packet.EthernetLen {
		return nil, batch.TooShort
	}
	list, p := e.ipsec, b[packet.EthernetLen:]
	l4, fragment := &list.l4[list.n], false
	switch (*packet.Ethernet)(b).Type() {
	case packet.EtherTypeIPv4:
		if reason = validateIPv4(p); reason == ok {
			fragment = (*packet.IPv4)(p).Fragmented()
		}
	case packet.EtherTypeIPv6:
		if reason = validateIPv6(p, l4); reason == ok {
			fragment = l4.Fragment
		}
	default:
		return nil, batch.EtherType
	}
	if reason == ok || reason == batch.TTLExpired { // our own packets end here
		s, err := e.arrivedBy(p)
		if s != nil || err != esp.OK {
			return s, reasonOf(err)
		}
	}
	if reason != ok {
		return nil, reason
	}
	if fragment && by == nil && e.partOfESP(p) {
		return nil, batch.FragmentsMissing
	}
	list.list(p, i, by)
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
		inner, reason := e.arrive(e.frame(*f), i, s)
		if inner == nil {
			return reason
		}
		s = inner
	}
	return batch.XfrmInHdrError
}

// list lists a valid packet p; l4 of the next place is its, if it is an IPv6 one.
func (s *ipsec) list(p []byte, i int, by *esp.SA) {
	n := s.n
	s.at[n], s.by[n] = int32(i), by
	if p[0]>>4 == 4 {
		gateway.ReadIPv4(&s.flows[n], p)
	} else {
		gateway.ReadIPv6(&s.flows[n], p, s.l4[n])
	}
	s.n = n + 1
}

// arrivedBy returns the association that a packet is protected by, nil if it is in clear
// or passes through to somebody else. It is an error if there is none for what is ours.
func (e *Engine) arrivedBy(p []byte) (*esp.SA, esp.Error) {
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

func (e *Engine) decapsulate(f *batch.Frame, s *esp.SA) esp.Error {
	buf, at, n := e.room(*f)
	at, n, err := s.Decapsulate(e.ipsec.worker, buf, at, n)
	if err == esp.OK {
		e.moved(f, at, n)
		if s.Mode() == esp.Tunnel { // what it carried is another source's
			f.Port &^= batch.Merged
		}
	}
	return err
}
