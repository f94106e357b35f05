package esp

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/inspect"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

// classifyAll validates the packets of a block and lists them: ESP for this router with the SA
// that decrypts it, other packets for the policies.
func (s *Stage) classifyAll(in []batch.Frame, out []batch.Result, jobs []Job, by *ipsec.SA) {
	var (
		common [block]commonESP
		first  *ipsec.SA // of opened packets with common ESP
		opened int
	)
	if jobs != nil {
		s.findCommon(in, jobs, &common)
	}
	for i := range in {
		if out[i].Verdict != 0 {
			if job := jobOf(jobs, i); job != nil {
				job.Kind = Decided
			}
			continue
		}
		if in[i].Origin.Has(batch.PolicyDone) || jobs != nil && jobs[i].Classified {
			continue
		}
		if common[i].spi != 0 {
			if sa := s.openCommon(&in[i], common[i], &jobs[i]); sa != nil {
				if opened++; first == nil {
					first = sa
				}
				s.countFirstSA(sa, 1)
				continue
			}
		}
		sa, drop := s.classify(s.frames.Bytes(in[i]), i, by)
		switch {
		case sa != nil:
			s.toOpen.at[s.toOpen.n], s.toOpen.sa[s.toOpen.n] = int32(i), sa
			s.toOpen.n++
		case drop.Verdict != 0:
			setDrop(&in[i], &out[i], jobOf(jobs, i), drop)
		}
	}
	s.countReceived(opened, first)
}

// classify validates packet i. It returns the SA that decrypts it, or a drop, or lists it for the
// policies. by is the SA that the packet was decrypted by, nil if it was received in plaintext.
func (s *Stage) classify(b []byte, i int, by *ipsec.SA) (*ipsec.SA, batch.Result) {
	if len(b) < packet.EthernetLen {
		return nil, batch.DropFor(batch.TooShort)
	}
	p, l4 := b[packet.EthernetLen:], &s.l4[s.n]
	reason, fragment := inspect.OK, false
	switch (*packet.Ethernet)(b).Type() {
	case packet.EtherTypeIPv4:
		if reason = inspect.IPv4(p); reason == inspect.OK {
			fragment = (*packet.IPv4)(p).Fragmented()
		}
	case packet.EtherTypeIPv6:
		if reason = inspect.IPv6(p, l4); reason == inspect.OK {
			fragment = l4.Fragment
		}
	default:
		return nil, batch.DropFor(batch.EtherType)
	}
	if reason == inspect.OK || reason == batch.TTLExpired { // ESP for this router is not forwarded
		sa, err := s.inboundSA(p)
		if sa != nil || err != ipsec.OK {
			return sa, dropFor(err)
		}
	}
	if reason == batch.TTLExpired && by != nil && s.forHost(p, l4) {
		reason = inspect.OK
	}
	if reason != inspect.OK {
		return nil, batch.DropFor(reason)
	}
	if fragment && by == nil {
		if r := s.reassembleESP(p); r.Verdict != 0 {
			return nil, r
		}
	}
	s.list(p, i, by)
	return nil, batch.Result{}
}

// inboundSA returns the SA of an ESP packet, nil for other packets and for ESP between other
// hosts. It is an error if ESP for this router has no SA.
func (s *Stage) inboundSA(p []byte) (*ipsec.SA, ipsec.Error) {
	spi, _, ok := ipsec.Inbound(p)
	if !ok {
		return nil, ipsec.OK
	}
	dst := ipsec.Destination(p)
	if sa := s.gateway.Inbound(spi, dst); sa != nil {
		return sa, ipsec.OK
	}
	if s.hop(dst).Kind() == fib.KindLocal {
		return nil, ipsec.InNoStates
	}
	return nil, ipsec.OK
}
