package cpu

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
)

// checkICMPErrorPolicy applies the policies to the packets that ICMP errors quote (RFC 4301
// section 6.2). The addresses of an error are those of any router on the way, so policies may not
// select it by them, although it is about a packet that they protect.
func (e *Engine) checkICMPErrorPolicy(in []batch.Frame) {
	s := e.ipsec
	for j := range s.n {
		if s.flows[j].ICMPError() {
			e.checkQuote(&in[s.at[j]], j)
		}
	}
}

// checkQuote is checkICMPErrorPolicy for packet j of those listed, an ICMP error.
func (e *Engine) checkQuote(f *batch.Frame, j int) {
	s, l4 := e.ipsec, packet.IPv4Len
	p := e.frame(*f)[packet.EthernetLen:]
	if p[0]>>4 == 6 {
		l4 = s.l4[j].Offset
	}
	q, is := gateway.ReadQuote(p, l4)
	if !is {
		if s.by[j] != nil && s.gateway.StrictErrors && s.enter[j] == esp.OK {
			s.enter[j] = esp.InNoPols
		}
		return
	}
	s.enter[j] = s.gateway.ErrorMayEnter(&q, s.enter[j], s.by[j])
	if s.sas[j] == nil && s.leave[j] == esp.OK {
		s.sas[j], s.leave[j] = s.gateway.ProtectError(&q, e.mayReport(&q, *f, s.by[j]))
	}
}

// mayReport reports whether an ICMP error comes from where the packet that it quotes went: out of the
// tunnel by which that left, from this router, or by a port through which the packet's destination is
// reached. So nobody on the untrusted side sends errors into a tunnel.
func (e *Engine) mayReport(q *gateway.Quote, f batch.Frame, by *esp.SA) bool {
	switch {
	case f.Port&batch.Own != 0:
		return true
	case by != nil:
		return e.ipsec.gateway.MayEnter(&q.Answer, by) == esp.OK
	}
	return !e.ipsec.gateway.StrictErrors && e.fib.Takes(fib.StrictSource, f.Ingress(), e.lookup(q.Dst))
}
