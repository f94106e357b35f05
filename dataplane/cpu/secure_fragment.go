package cpu

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
)

// Fragments that this router has to reassemble are dropped as batch.FragmentsMissing, with
// batch.Expected where an association is there for them. The worker collects them, and the
// whole packet meets the policies.

// partOfESP reports whether a fragment that came in clear may be of ESP, or of ESP in UDP, that
// this router decrypts: for itself, or in transport mode for a host behind it. Fragments of UDP
// for a host are the policies' first, see partOfTransport.
func (e *Engine) partOfESP(p []byte) bool {
	part, is := esp.Fragment(p)
	if !is {
		return false
	}
	if e.hop(esp.Destination(p)).Kind() != fib.KindLocal {
		if part.Proto == packet.UDP {
			return false
		}
		if f := gateway.AnyFlow(p); !e.ipsec.gateway.ArrivesInTransport(&f) {
			return false
		}
	}
	e.expectPart(p, part)
	return true
}

// partOfTransport reports whether packet j of those listed, which came in clear and should not
// have, is a fragment that may be of ESP in UDP for a host behind this router.
func (e *Engine) partOfTransport(p []byte, j int) bool {
	s := e.ipsec
	if s.by[j] != nil || s.enter[j] != esp.InTmplMismatch {
		return false
	}
	part, is := esp.Fragment(p)
	if !is || part.First && part.SPI == 0 || !s.gateway.ArrivesInTransport(&s.flows[j]) {
		return false
	}
	e.expectPart(p, part)
	return true
}

// expectPart notes whether an association is there for what a fragment shows.
func (e *Engine) expectPart(p []byte, part esp.Part) {
	e.ipsec.expected = part.SPI != 0 && e.ipsec.gateway.Inbound(part.SPI, esp.Destination(p)) != nil
}

// partOfHost reports whether packet j of those listed is a fragment that is to leave in
// transport mode, which protects whole packets alone (RFC 4303 section 3.3.4).
func (e *Engine) partOfHost(f *batch.Frame, p []byte, j int) bool {
	fragment := e.ipsec.l4[j].Fragment
	if p[0]>>4 == 4 {
		fragment = (*packet.IPv4)(p).Fragmented()
	}
	if fragment {
		if e.ipsec.by[j] != nil {
			f.Port |= batch.Cleared // it has met the policies of entering, and came by a tunnel
		}
		e.ipsec.expected = true
	}
	return fragment
}
