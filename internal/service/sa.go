package service

import (
	"net/netip"
	"time"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/ipsec/sequences"
)

// configuredSA is a security association from the configuration.
type configuredSA struct {
	config config.SA
	*ipsec.SA
	id      string // sequences.Association.ID
	expired bool   // its hard lifetime, and logged
}

// newSA creates an SA that is not in the gateway yet.
func (p *ipsecGateway) newSA(c *config.SA) (*configuredSA, error) {
	p.mu.Lock()
	tunnel := p.gateway.Tunnel(c.Name)
	p.mu.Unlock()
	out := ipsec.Config{
		Name: c.Name, SPI: c.SPI, Src: c.Src, Dst: c.Dst, Suite: c.Suite, Key: c.Key.Bytes(), AuthKey: c.AuthKey.Bytes(),
		ESN: c.ESN, ReplayWindow: c.ReplayWindow, Lifetime: ipsec.Lifetime{Soft: limits(c.Lifetime.Soft), Hard: limits(c.Lifetime.Hard)},
		Clock: &p.gateway.Clock, Nonces: &p.gateway.Nonces, Tunnel: tunnel,
	}
	if c.Direction == config.DirectionIn {
		out.Direction = ipsec.In
	}
	if c.Mode == config.SATransport {
		out.Mode = ipsec.Transport
	}
	if c.Encap != (config.Encap{}) {
		out.Encap = &ipsec.Encap{SrcPort: c.Encap.SrcPort, DstPort: c.Encap.DstPort}
	}
	out.DF = map[config.DF]ipsec.DFPolicy{config.DFCopy: ipsec.CopyDF, config.DFSet: ipsec.SetDF, config.DFClear: ipsec.ClearDF}[c.DF]
	sa, err := ipsec.NewSA(out, p.workers)
	if err != nil {
		return nil, err
	}
	a := &configuredSA{config: *c, SA: sa}
	a.id = a.numbers().ID()
	return a, nil
}

func limits(l config.Limits) ipsec.Limits {
	return ipsec.Limits{Packets: l.Packets, Bytes: l.Bytes, Age: time.Duration(l.Seconds) * time.Second}
}

// numbers identifies the SA's stored sequence numbers: by the key with which IVs must not
// repeat, or without encryption by the authentication key.
func (a *configuredSA) numbers() sequences.Association {
	key := a.config.Key.Bytes()
	if len(key) == 0 {
		key = a.config.AuthKey.Bytes()
	}
	return sequences.Association{SA: a.SA, Key: key}
}

func (a *configuredSA) inbound() bool { return a.config.Direction == config.DirectionIn }

// inboundID identifies an inbound SA in the gateway.
type inboundID struct {
	spi uint32
	dst netip.Addr
}

func (a *configuredSA) inboundID() inboundID { return inboundID{a.config.SPI, a.config.Dst} }

// sameSender reports whether two inbound SAs accept the same packets: all authenticated fields
// are equal.
func (a *configuredSA) sameSender(b *configuredSA) bool {
	return a.config.SPI == b.config.SPI && a.config.Key.Equal(b.config.Key) && a.config.AuthKey.Equal(b.config.AuthKey)
}

// rules converts the checked policies of a configuration. The caller holds mu.
func (p *ipsecGateway) rules(policies []config.Policy) []gateway.Rule {
	var rules []gateway.Rule
	for _, c := range policies {
		r := gateway.Rule{Direction: ipsec.Out, Policy: policy.Policy{
			Src: c.Src, Dst: c.Dst, Protocol: c.Protocol,
			SrcPorts: policy.Ports(c.SrcPorts.First, c.SrcPorts.Last), DstPorts: policy.Ports(c.DstPorts.First, c.DstPorts.Last),
			Action: map[config.Action]policy.Action{
				config.ActionProtect: policy.Protect, config.ActionBypass: policy.Bypass, config.ActionDiscard: policy.Discard,
			}[c.Action],
		}}
		if c.Direction == config.DirectionIn {
			r.Direction = ipsec.In
		}
		if r.Action == policy.Protect {
			r.Name, r.Target = c.SA, p.gateway.Tunnel(c.SA)
		}
		rules = append(rules, r)
	}
	return rules
}
