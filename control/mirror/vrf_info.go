package mirror

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/warproute/warproute/control/rtnl"
)

// checkDefaults warns of each VRF with ports and without a default route: Linux continues with table main
// there.
func (s *state) checkDefaults() {
	for _, t := range s.vrfs {
		for family, all := range []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)} {
			kind := fmt.Sprint("default ", t.id, family)
			if _, ok := t.routes.Get(all); ok || s.warned[kind] || !s.hasPorts(t) {
				continue
			}
			name := s.vrfNames(t)[0]
			s.warnOnce(kind, fmt.Sprintf("VRF %s has no %s default route: linux looks up other destinations in table main, the router drops them as no_route; add one (ip -%d route add unreachable default metric 4278198272 table %d), or leak routes to the VRF",
				name, []string{"IPv4", "IPv6"}[family], 4+2*family, t.id))
		}
	}
}

// hasPorts reports whether a port is in a VRF with a table.
func (s *state) hasPorts(t *table) bool {
	for _, l := range s.links {
		if l.port >= 0 && l.InVRF() && slices.Contains(t.links, l.Master) {
			return true
		}
	}
	return false
}

// vrfNames returns the names of the VRFs with a table, in order of their links.
func (s *state) vrfNames(t *table) (names []string) {
	slices.Sort(t.links)
	for _, index := range t.links {
		names = append(names, s.linkName(index))
	}
	return names
}

// tableNamed returns the table of the VRF with a name, nil for none.
func (s *state) tableNamed(vrf string) *table {
	for _, t := range s.vrfs {
		if slices.Contains(s.vrfNames(t), vrf) {
			return t
		}
	}
	return nil
}

// combinedOf returns the combined table in which packets that a port receives are looked up, nil for another table.
func (s *state) combinedOf(port int) *combined {
	vrf := s.fib.PortVRF(uint16(port))
	for _, c := range s.combined {
		if c.vrf == vrf {
			return c
		}
	}
	return nil
}

// tableOfPort returns the table in which packets that a port receives are looked up, nil if it is missing or combined.
func (s *state) tableOfPort(number int) *table {
	vrf := s.fib.PortVRF(uint16(number))
	for _, t := range s.allTables() {
		if t.vrf == vrf {
			return t
		}
	}
	return nil
}

// nameOfTable returns the name of a route's table, as `ip route` prints it.
func nameOfTable(t *table, r *route) string {
	if t.vrf != 0 {
		return fmt.Sprint(t.id)
	}
	return nameOf(tableNames, uint8(r.table()))
}

// checkVRFRule warns if Linux does not look packets of VRFs up in their tables.
func (s *state) checkVRFRule(r *rtnl.Rule, deleted bool) {
	if deleted || r.Priority >= mainPriority {
		s.warnOnce("l3mdev", fmt.Sprintf("rule of VRFs (l3mdev, priority %d) deleted, or behind that of table main: the router uses the tables of VRFs, linux does not; add it (ip rule add l3mdev pref 1000)", r.Priority))
	}
}

const mainPriority = 32766

// VRFInfo describes a VRF.
type VRFInfo struct {
	Name       string `json:"name"`
	Table      uint32 `json:"table"`       // of Linux
	RoutesIPv4 int    `json:"routes_ipv4"` // in the forwarding table, including host routes of neighbors
	RoutesIPv6 int    `json:"routes_ipv6"`
	Ports      int    `json:"ports"`    // in the VRF
	Complete   bool   `json:"complete"` // all routes are read; before, packets of its ports are dropped as no_table
}

// vrfInfos describes all VRFs, sorted by name.
func (s *state) vrfInfos() (all []VRFInfo) {
	ports := map[int]int{} // by index of the VRF
	for _, l := range s.links {
		if l.port >= 0 && l.InVRF() && l.Kind != "macvlan" {
			ports[l.Master]++
		}
	}
	for _, t := range s.vrfs {
		for _, index := range t.links {
			all = append(all, VRFInfo{s.linkName(index), t.id, s.inTable(t, 0).Len(), s.inTable(t, 1).Len(), ports[index], t.complete})
		}
	}
	slices.SortFunc(all, func(a, b VRFInfo) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// listVRFs names all VRFs for an error.
func (s *state) listVRFs() string {
	var names []string
	for _, v := range s.vrfInfos() {
		names = append(names, v.Name)
	}
	if len(names) == 0 {
		return "no VRFs"
	}
	return strings.Join(names, ", ")
}
