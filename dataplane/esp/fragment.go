package esp

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
)

// The stage drops fragments that this router has to reassemble as batch.FragmentsMissing. The
// worker collects them, and the whole packet passes the stage.

// reassembleESP returns the drop of a fragment, received in plaintext, that may be of ESP or of
// ESP in UDP that this router decrypts: for itself, or in transport mode for a host behind it. Fragments of
// UDP for such a host are checked against the policies first: see reassembleTransport.
func (s *Stage) reassembleESP(p []byte) batch.Result {
	part, ok := ipsec.Fragment(p)
	if !ok {
		return batch.Result{}
	}
	if s.hop(ipsec.Destination(p)).Kind() != fib.KindLocal {
		if part.Proto == packet.UDP {
			return batch.Result{}
		}
		if f := gateway.AnyFlow(p); !s.gateway.ArrivesInTransport(&f) {
			return batch.Result{}
		}
	}
	return batch.DropToReassemble(s.hasSA(p, part))
}

// reassembleTransport returns the drop of listed packet j, which should not have been received in
// plaintext, if it is a fragment that may be of ESP in UDP for a host behind this router.
func (s *Stage) reassembleTransport(p []byte, j int) batch.Result {
	if s.inSA[j] != nil || s.inbound[j] != ipsec.InTmplMismatch {
		return batch.Result{}
	}
	part, ok := ipsec.Fragment(p)
	if !ok || part.First && part.SPI == 0 || !s.gateway.ArrivesInTransport(&s.flows[j]) {
		return batch.Result{}
	}
	return batch.DropToReassemble(s.hasSA(p, part))
}

// hasSA reports whether the SA of a fragment of ESP is known.
func (s *Stage) hasSA(p []byte, part ipsec.Part) bool {
	return part.SPI != 0 && s.gateway.Inbound(part.SPI, ipsec.Destination(p)) != nil
}

// isFragment reports whether listed packet j is a fragment. Transport mode protects only whole
// packets (RFC 4303 section 3.3.4).
func (s *Stage) isFragment(p []byte, j int) bool {
	if p[0]>>4 == 4 {
		return (*packet.IPv4)(p).Fragmented()
	}
	return s.l4[j].Fragment
}
