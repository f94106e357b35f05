package guard

import (
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
)

// sameWire contains the kinds of interfaces that send packets through their parent interface
// without an outer IP header.
var sameWire = map[string]bool{"vlan": true, "macvlan": true, "macvtap": true, "ipvlan": true, "ipvtap": true, "macsec": true}

// stacked returns the names of the ports, their stacked interfaces, such as VLANs, and their
// masters, such as a bridge or VRF.
func stacked(links []rtnl.Link, ports map[int]bool) []string {
	found := maps.Clone(ports)
	for grown := true; grown; {
		grown = false
		for i := range links {
			l := &links[i]
			if !found[l.Index] && sameWire[l.Kind] && found[l.Parent] {
				found[l.Index], grown = true, true
			}
			if l.Master != 0 && found[l.Index] && !found[l.Master] {
				found[l.Master], grown = true, true
			}
		}
	}
	var names []string
	for i := range links {
		if found[links[i].Index] {
			names = append(names, links[i].Name)
		}
	}
	return names
}

// forwarding contains the Linux forwarding settings of one interface, by address family.
type forwarding struct{ ipv4, ipv6 bool }

// host is the state of all interfaces in a network namespace.
type host struct {
	links    []rtnl.Link
	settings map[int]forwarding // by interface index
}

// readHost reads the interfaces and their forwarding settings from the kernel.
func readHost(conn *rtnl.Conn) (h host, err error) {
	byIndex := map[int]rtnl.Link{} // a restarted dump repeats links
	if err := conn.Dump(rtnl.Links(), func(msg rtnl.Message) error {
		return rtnl.Parse(msg, func(l *rtnl.Link) {
			if msg.Type == unix.RTM_NEWLINK && l.Family == unix.AF_UNSPEC {
				byIndex[l.Index] = *l
			}
		})
	}); err != nil {
		return h, err
	}
	for _, index := range slices.Sorted(maps.Keys(byIndex)) {
		h.links = append(h.links, byIndex[index])
	}
	all := map[uint8]map[int]rtnl.Netconf{unix.AF_INET: {}, unix.AF_INET6: {}}
	for family, settings := range all {
		err := conn.Dump(rtnl.Netconfs(family), func(msg rtnl.Message) error {
			return rtnl.Parse(msg, func(n *rtnl.Netconf) { settings[n.Index] = *n })
		})
		if err != nil && family == unix.AF_INET { // kernels without IPv6 fail this dump
			return h, err
		}
	}
	h.settings = map[int]forwarding{}
	for _, l := range h.links { // IPv4 uses the setting of the interface, IPv6 the one for all interfaces
		six := all[unix.AF_INET6]
		h.settings[l.Index] = forwarding{all[unix.AF_INET][l.Index].Forwarding, six[rtnl.NetconfAll].Forwarding || l.Forced6}
	}
	return h, nil
}
