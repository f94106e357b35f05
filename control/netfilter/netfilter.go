// Package netfilter finds the rules of a firewall that Linux puts in the way of packets
// that it forwards. The packets of a router's ports never come there: AF_XDP takes them
// before. It looks and changes nothing.
package netfilter

import (
	"errors"
	"fmt"
	"slices"

	"github.com/warproute/warproute/control/guard"
)

// Chain is a chain with rules, or a policy, for packets that Linux forwards.
type Chain struct {
	Table string // with its family in front, as nft(8) writes it: "inet filter"; "iptables nat" of the older kind
	Name  string
	Hook  string // "prerouting", "forward", "postrouting", "ingress" or "egress"
	Rules int    // -1: some
	Drops bool   // what no rule takes is dropped
}

func (c Chain) String() string {
	s := c.Table + " " + c.Name
	switch {
	case c.Rules > 0:
		s += fmt.Sprintf(" (%d rules)", c.Rules)
	case c.Rules < 0:
		s += " (rules)"
	}
	if c.Drops {
		s += " (policy drop)"
	}
	return s
}

// Forwarding returns the chains of the calling thread's network namespace, without those of a
// gateway's own table. A kernel
// without netfilter has none. It takes CAP_NET_ADMIN.
func Forwarding() ([]Chain, error) {
	chains, err := tables()
	for _, family := range legacyFamilies {
		older, e := family.chains()
		chains, err = append(chains, older...), errors.Join(err, e)
	}
	chains = slices.DeleteFunc(chains, func(c Chain) bool { return c.Rules == 0 && !c.Drops || c.Table == guard.TableName })
	if err != nil {
		return chains, fmt.Errorf("look for rules of netfilter: %w", err)
	}
	return chains, nil
}
