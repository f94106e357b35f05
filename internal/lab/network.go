package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Network is namespaces by name.
type Network map[string]*Namespace

// Build builds a network from a text with one statement per line:
//
//	client client0 10.7.0.2/24 fd07::2/64 -- router lan0 10.7.0.1/24 fd07::1/64
//	client route default 10.7.0.1
//	router sysctl net.ipv4.ip_forward 0
//
// The first is a veth pair, with the addresses of each end. Statements create the namespaces
// that they name first. IPv4 and IPv6 forwarding is off in all of them.
func Build(opts VethOptions, text string) (Network, error) {
	n := Network{}
	if err := n.Add(opts, text); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// Add adds statements to a network.
func (n Network) Add(opts VethOptions, text string) error {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := n.add(opts, words); err != nil {
			return fmt.Errorf("build %q: %w", strings.TrimSpace(line), err)
		}
	}
	return nil
}

func (n Network) add(opts VethOptions, words []string) error {
	ns, err := n.namespace(words[0])
	switch {
	case err != nil:
		return err
	case len(words) == 4 && words[1] == "route":
		via, err := netip.ParseAddr(words[3])
		if err != nil {
			return err
		}
		dst := netip.PrefixFrom(via, 0)
		if words[2] != "default" {
			if dst, err = netip.ParsePrefix(words[2]); err != nil {
				return err
			}
		}
		return ns.AddRoute(dst, via)
	case len(words) == 4 && words[1] == "sysctl":
		return ns.Sysctl(words[2], words[3])
	}
	for i, w := range words {
		if w == "--" && i >= 2 && len(words) >= i+3 {
			return n.addLink(opts, words[:i], words[i+1:])
		}
	}
	return errors.New("neither a link nor a route nor a sysctl")
}

func (n Network) addLink(opts VethOptions, a, b []string) error {
	var ends [2]End
	for i, words := range [][]string{a, b} {
		ns, err := n.namespace(words[0])
		if err != nil {
			return err
		}
		ends[i] = End{Namespace: ns, Name: words[1]}
	}
	if err := Veth(ends[0], ends[1], opts); err != nil {
		return err
	}
	for i, words := range [][]string{a, b} {
		for _, w := range words[2:] {
			addr, err := netip.ParsePrefix(w)
			if err != nil {
				return err
			}
			if err := ends[i].Namespace.AddAddr(ends[i].Name, addr); err != nil {
				return err
			}
		}
	}
	return nil
}

// namespace returns a namespace of the network, and creates it if the name is new.
func (n Network) namespace(name string) (*Namespace, error) {
	if ns, ok := n[name]; ok {
		return ns, nil
	}
	ns, err := New(name)
	if err != nil {
		return nil, err
	}
	n[name] = ns
	return ns, ns.Forwarding(false)
}

// Close closes the namespaces; their links vanish with them.
func (n Network) Close() {
	for _, ns := range n {
		ns.Close()
	}
}

// Forwarding switches Linux's own forwarding, of IPv4 and IPv6.
func (ns *Namespace) Forwarding(on bool) error {
	value := "0"
	if on {
		value = "1"
	}
	return errors.Join(ns.Sysctl("net.ipv4.ip_forward", value), ns.Sysctl("net.ipv6.conf.all.forwarding", value))
}
