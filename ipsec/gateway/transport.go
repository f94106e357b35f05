package gateway

import (
	"encoding/binary"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/policy"
)

// countTransport counts an inbound association in transport mode.
func (b *bundle) countTransport(s *ipsec.SA, n int32) {
	if s.Mode() == ipsec.Transport {
		b.transport.Add(n)
	}
}

// ArrivesInTransport reports whether a policy has packets of a flow arrive in transport mode,
// by an association that is there: this gateway opens them in the place of their
// destination, and has to reassemble their fragments before.
func (g *Gateway) ArrivesInTransport(f *Flow) bool {
	r := g.lookup()
	n, v := r.in.Lookup(f)
	return n != policy.None && v.Action() == policy.Protect && r.bundles[v.Target()].transport.Load() > 0
}

// AnyFlow is the flow between the addresses of a valid packet of which neither protocol nor
// ports are known: it matches every policy that protects or discards some of it.
func AnyFlow(p []byte) (f Flow) {
	if p[0]>>4 == 4 {
		f.SetIPv4(binary.BigEndian.Uint32(p[12:]), binary.BigEndian.Uint32(p[16:]), policy.HiddenProtocol, policy.HiddenPort, policy.HiddenPort)
	} else {
		f.SetIPv6((*[16]byte)(p[8:24]), (*[16]byte)(p[24:40]), policy.HiddenProtocol, policy.HiddenPort, policy.HiddenPort)
	}
	return f
}
