package e2e

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/routes"
)

// announcement is a table for BIRD to announce.
type announcement struct {
	config     string                           // BIRD protocols
	ipv4, ipv6 int                              // numbers of routes
	byHop      map[int][nextHops][]netip.Prefix // by family
}

// add writes the static protocols of a family by next hop: table4_0, table4_1, ..., with n routes
// distributed like the internet's.
func (a *announcement) add(t *testing.T, dir string, f routes.Family, n int) {
	t.Helper()
	table, err := routes.New("internet", f, n, 1)
	require.NoError(t, err)
	files, byHop := make([]strings.Builder, nextHops), [nextHops][]netip.Prefix{}
	ours := netip.MustParsePrefix("10.0.0.0/8")
	for i, p := range table.Prefixes {
		if p.Overlaps(ours) {
			continue
		}
		fmt.Fprintf(&files[i%nextHops], "route %v blackhole;\n", p)
		byHop[i%nextHops] = append(byHop[i%nextHops], p)
		if f == routes.IPv4 {
			a.ipv4++
		} else {
			a.ipv6++
		}
	}
	a.byHop[int(f)] = byHop
	for i := range files {
		path := filepath.Join(dir, fmt.Sprintf("table%d_%d.conf", f, i))
		writeFile(t, path, files[i].String())
		a.config += fmt.Sprintf("protocol static table%d_%d {\n\tipv%d;\ninclude %q;\n}\n", f, i, f, path)
	}
}

func announce(t *testing.T, dir string, ipv4, ipv6 int) announcement {
	t.Helper()
	a := announcement{byHop: map[int][nextHops][]netip.Prefix{}}
	a.add(t, dir, routes.IPv4, ipv4)
	a.add(t, dir, routes.IPv6, ipv6)
	return a
}

// serverConfig returns BIRD's configuration in the server, with graceful restart.
func serverConfig(tables string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "router id 10.8.0.2;\nprotocol device {}\n%s", tables)
	for _, s := range []struct {
		family              int
		local, remote, next string
	}{{4, "10.8.0.2", "10.8.0.1", "10.8.0.1%d"}, {6, "fd08::2", "fd08::1", "fd08::1%d"}} {
		fmt.Fprintf(&b, "filter announce%d {\n", s.family)
		for i := range nextHops {
			fmt.Fprintf(&b, "\tif proto = \"table%d_%d\" then { bgp_next_hop = %s; accept; }\n", s.family, i, fmt.Sprintf(s.next, i+1))
		}
		fmt.Fprintf(&b, `	reject;
}
protocol bgp router%d {
	local %s as %d;
	neighbor %s as %d;
	connect delay time 1;
	connect retry time 1;
	error wait time 1, 2;
	graceful restart on;
	ipv%d { import none; export filter announce%d; };
}
`, s.family, s.local, serverAS, s.remote, routerAS, s.family, s.family)
	}
	return b.String()
}

// frrConfig is the configuration of bgpd.
var frrConfig = fmt.Sprintf(`router bgp %d
 bgp router-id 10.8.0.1
 no bgp ebgp-requires-policy
 bgp graceful-restart
 bgp graceful-restart preserve-fw-state
 timers bgp 3 9
 neighbor 10.8.0.2 remote-as %d
 neighbor 10.8.0.2 timers connect 1
 neighbor fd08::2 remote-as %d
 neighbor fd08::2 timers connect 1
 address-family ipv4 unicast
  no neighbor fd08::2 activate
 exit-address-family
 address-family ipv6 unicast
  neighbor fd08::2 activate
 exit-address-family
`, routerAS, serverAS, serverAS)

// birdConfig is the configuration of BIRD as the router's daemon.
var birdConfig = fmt.Sprintf(`router id 10.8.0.1;
protocol device {}
protocol kernel { ipv4 { export all; }; graceful restart on; persist; }
protocol kernel { ipv6 { export all; }; graceful restart on; persist; }
protocol bgp server4 { local 10.8.0.1 as %[1]d; neighbor 10.8.0.2 as %[2]d; graceful restart on; connect delay time 1; connect retry time 1; ipv4 { import all; export none; }; }
protocol bgp server6 { local fd08::1 as %[1]d; neighbor fd08::2 as %[2]d; graceful restart on; connect delay time 1; connect retry time 1; ipv6 { import all; export none; }; }
`, routerAS, serverAS)

// nextHopsAnswer adds the next hops' addresses to the server.
func nextHopsAnswer(t *testing.T, top *lab.Topology) {
	t.Helper()
	for i := range nextHops {
		answersAt(t, top.Server, lab.ServerLink, fmt.Sprintf("10.8.0.1%d/24", i+1), fmt.Sprintf("fd08::1%d/64", i+1))
	}
}
