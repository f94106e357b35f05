// Package netfilter lists the firewall chains for packets that Linux forwards. It changes nothing.
//
// Packets of a router's ports bypass these chains: AF_XDP receives them first.
package netfilter

import (
	"errors"
	"fmt"
	"slices"

	"github.com/warproute/warproute/control/guard"
)

// Chain is a base chain for packets that Linux forwards.
type Chain struct {
	Table string // family and name, as nft(8) prints them: "inet filter"; for iptables-legacy "iptables nat"
	Name  string
	Hook  string // "prerouting", "forward", "postrouting", "ingress" or "egress"
	Rules int    // number of rules; -1: at least one
	Drops bool   // policy drop
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

// Forwarding returns the chains with rules or a drop policy, except those of a gateway's guard
// tables. It reads the network namespace of the calling thread and requires CAP_NET_ADMIN.
//
// Kernels without netfilter have no chains.
func Forwarding() ([]Chain, error) {
	chains, err := tables()
	for _, family := range legacyFamilies {
		older, e := family.chains()
		chains, err = append(chains, older...), errors.Join(err, e)
	}
	chains = slices.DeleteFunc(chains, func(c Chain) bool { return c.Rules == 0 && !c.Drops || guard.Own(c.Table) })
	if err != nil {
		return chains, fmt.Errorf("look for rules of netfilter: %w", err)
	}
	return chains, nil
}
