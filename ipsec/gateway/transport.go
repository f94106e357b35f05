package gateway

import (
	"encoding/binary"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/policy"
)

// countTransport counts an inbound association in transport mode.
func (b *tunnel) countTransport(s *ipsec.SA, n int32) {
	if s.Mode() == ipsec.Transport {
		b.transport.Add(n)
	}
}

// ArrivesInTransport reports whether a policy expects packets of a flow in transport mode by an
// existing SA. The gateway then decrypts on behalf of the destination host, and must reassemble
// fragments first.
func (g *Gateway) ArrivesInTransport(f *Flow) bool {
	r := g.lookup()
	n, v := r.in.Lookup(f)
	return n != policy.None && v.Action() == policy.Protect && r.tunnels[v.Target()].transport.Load() > 0
}

// AnyFlow returns a flow between the addresses of a valid packet with unknown protocol and ports: it
// matches every policy that protects or discards a part of it.
func AnyFlow(p []byte) (f Flow) {
	if p[0]>>4 == 4 {
		f.SetIPv4(binary.BigEndian.Uint32(p[12:]), binary.BigEndian.Uint32(p[16:]), policy.HiddenProtocol, policy.HiddenPort, policy.HiddenPort)
	} else {
		f.SetIPv6((*[16]byte)(p[8:24]), (*[16]byte)(p[24:40]), policy.HiddenProtocol, policy.HiddenPort, policy.HiddenPort)
	}
	return f
}
