package config

import (
	"slices"

	"github.com/warproute/warproute/internal/netdev"
)

// WithMembers returns ports in which members replace each bond. They have the bond's settings. members returns
// the members of a bond, none for another interface.
func WithMembers(ports []Port, members func(name string) ([]string, error)) (all []Port, err error) {
	for _, p := range ports {
		if p.Pattern() || p.Excludes() {
			all = append(all, p)
			continue
		}
		names, err := members(p.Interface)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			all = append(all, p)
		}
		for _, name := range names {
			m := p
			m.Interface, m.Bond = name, p.Interface
			all = append(all, m)
		}
	}
	return all, nil
}

// WithoutMembers returns ports in which each bond replaces its members.
func WithoutMembers(ports []Port) (all []Port) {
	for _, p := range ports {
		if p.Bond != "" {
			p.Interface, p.Bond = p.Bond, ""
			if slices.Contains(all, p) {
				continue
			}
		}
		all = append(all, p)
	}
	return all
}

// portQueues returns the numbers of queues of an interface, of a bond the fewest of its members.
func portQueues(name string) (rx, tx int, err error) {
	members, err := netdev.Members(name)
	if err != nil || len(members) == 0 {
		return netdev.Queues(name)
	}
	for i, m := range members {
		r, t, err := netdev.Queues(m)
		if err != nil {
			return 0, 0, err
		}
		if i == 0 || r < rx {
			rx = r
		}
		if i == 0 || t < tx {
			tx = t
		}
	}
	return rx, tx, nil
}
