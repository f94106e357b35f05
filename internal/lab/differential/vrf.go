package differential

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// tables are the routing tables of the sides: lan is in VRF red, nar in VRF blue, wan in none.
var tables = [Sides]string{"10", "main", "20"}

// VRFs has lan and nar in VRFs, and all routes in all tables, so that they leak to the ports of other VRFs. Each port has a
// macvlan, whose MAC address half of the frames have.
var VRFs = Ports{
	Name: "VRF and macvlan", Kinds: 2, Modules: []string{"vrf", "macvlan"}, configured: sides[:],
	build: func(c *Contender) {
		Plain.build(c)
		commands := []string{"link add red type vrf table 10", "link set red up", "link add blue type vrf table 20", "link set blue up", "link set lan master red", "link set nar master blue"}
		for i, s := range sides {
			commands = append(commands, "link add link "+s+" name "+s+"v address "+virtualMAC(i).String()+" type macvlan mode bridge")
			if vrf := [Sides]string{"red", "", "blue"}[i]; vrf != "" {
				commands = append(commands, "link set "+s+"v master "+vrf)
			}
			commands = append(commands, "link set "+s+"v up")
			c.sides[i].wrap = func(frame []byte) []byte {
				if slices.Equal(frame[:6], routerMAC(i)) && frame[len(frame)-1]&1 == 0 {
					frame = slices.Clone(frame)
					copy(frame, virtualMAC(i))
				}
				return frame
			}
		}
		c.ip(commands...)
	},
	routes: func(c *Contender) (routes []string) {
		c.addNeighbors("narv", narSide)
		for i, s := range sides { // where they are not the router's, it forwards packets to its addresses
			for _, a := range []netip.Addr{side4(i, 1), side4(i, 255), side6(i, 1)} {
				require.NoError(c.t, c.Router.AddNeighbor(s, a, hostMAC(i)))
			}
		}
		for _, table := range tables {
			for side, dev := range sides {
				if tables[side] != table {
					routes = append(routes, fmt.Sprintf("%v/24 dev %s table %s", side4(side, 0), dev, table), fmt.Sprintf("%v/64 dev %s table %s", side6(side, 0), dev, table))
				}
			}
			for _, r := range sideRoutes {
				via, ok := viaSide(r)
				switch {
				case r == "10.21.0.0/16 via 10.9.0.2":
					r += " dev narv onlink"
				case r == "fd21::/32 via fd09::2":
					r = "fd21::/32 via fe80::2 dev narv"
				case ok:
					r += " dev " + sides[via] + " onlink"
				}
				routes = append(routes, r+" table "+table)
			}
			if table != "main" {
				routes = append(routes, "unreachable 0.0.0.0/0 table "+table+" metric 4278198272", "unreachable ::/0 table "+table+" metric 4278198272")
			}
		}
		return routes
	},
	Differences: []Difference{
		{Name: "routes over a macvlan use the port's MAC address", Rule: "link/macvlan", adjust: func(c *contrast) emissions { return c.linux.without(portMAC) }},
		{Name: "ICMPv6 errors about frames to a macvlan in a VRF have an address of its port; Linux uses the link-local one of the macvlan", Rule: "link/macvlan",
			adjust: func(c *contrast) emissions { return c.linux.without(c.macvlanSource) }},
		{Name: "addresses that are local in another VRF are punted to Linux, whose forwarding is off", Rule: "route/vrf", Punted: true, is: func(c *contrast) bool {
			return c.silent() && (c.v4() || c.v6()) && own(c.dst())
		}},
	},
}

// viaSide returns the side of a route's next hop.
func viaSide(route string) (side int, ok bool) {
	_, via, ok := strings.Cut(route, " via ")
	via = strings.TrimPrefix(via, "inet6 ")
	via, _, _ = strings.Cut(via, " ")
	for i := range sides {
		if via == side4(i, 2).String() || via == side6(i, 2).String() {
			return i, ok
		}
	}
	return 0, false
}

// addAddresses gives the router its addresses, and waits until Linux accepts packets to them.
func (c *Contender) addAddresses() {
	c.t.Helper()
	var commands []string
	for i, s := range sides {
		commands = append(commands, fmt.Sprintf("addr add %v/24 dev %s", side4(i, 1), s), fmt.Sprintf("addr add %v/64 dev %s nodad", side6(i, 1), s))
	}
	c.ip(commands...)
	for i, s := range sides {
		labtest.Eventually(c.t, 10*time.Second, "the address of "+s+" is local", func() bool {
			out := labtest.Run(c.t, c.Router, "ip", "-6", "route", "show", "table", "all", "type", "local", side6(i, 1).String())
			return strings.Contains(out, "local "+side6(i, 1).String()+" ")
		})
	}
}

// portMAC replaces the MAC address of nar's macvlan as the source by that of nar.
func portMAC(f []byte) {
	if slices.Equal(f[6:12], virtualMAC(narSide)) {
		copy(f[6:], routerMAC(narSide))
	}
}

// macvlanSource replaces the link-local address of a macvlan as the source of an ICMPv6 error by the address of its port.
func (c *contrast) macvlanSource(f []byte) {
	const source, l4 = 14 + 8, 14 + 40
	mac := virtualMAC(c.side)
	if len(f) < l4+8 || f[14]>>4 != 6 || f[14+6] != 58 || [16]byte(f[source:]) != [16]byte{0xfe, 0x80, 8: mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]} {
		return
	}
	copy(f[source:], side6(c.side, 1).AsSlice())
	c.finish(f[l4:], 2, 58, f[source:l4])
}
