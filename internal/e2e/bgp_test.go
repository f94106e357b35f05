package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/routes"
)

// The internet's table by BGP: BIRD in the server announces it to a daemon in the
// router, which installs it into Linux, where warproute finds it.
//
// The routes are spread over several next hops at the server. BIRD has a static
// protocol for each, which can be disabled and enabled again.

const (
	routerAS, serverAS = 65001, 65002
	nextHops           = 4 // 10.8.0.11 and following, fd08::11 and following
)

// fullScale reports whether the tests are to take minutes (`make test-scale`).
func fullScale() bool { return os.Getenv("WARPROUTE_SCALE") == "full" }

// tableSize is how many routes are announced.
func tableSize() (ipv4, ipv6 int) {
	if fullScale() {
		return 1_000_000, 200_000
	}
	return 50_000, 10_000
}

// announcement is a table for BIRD to announce.
type announcement struct {
	config     string                           // its protocols
	ipv4, ipv6 int                              // how many routes there are
	byHop      map[int][nextHops][]netip.Prefix // by family
}

// add writes the static protocols of a family, of n routes like the internet's, by next
// hop: table4_0, table4_1, ...
func (a *announcement) add(t *testing.T, dir string, f routes.Family, n int) {
	t.Helper()
	table, err := routes.New("internet", f, n, 1)
	if err != nil {
		t.Fatal(err)
	}
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

// serverConfig is BIRD's as the neighbour of a router: what it announces, and the
// sessions, with graceful restart.
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

// frrConfig is bgpd's.
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

// birdConfig is that of BIRD as the router's daemon.
var birdConfig = fmt.Sprintf(`router id 10.8.0.1;
protocol device {}
protocol kernel { ipv4 { export all; }; graceful restart on; persist; }
protocol kernel { ipv6 { export all; }; graceful restart on; persist; }
protocol bgp server4 { local 10.8.0.1 as %[1]d; neighbor 10.8.0.2 as %[2]d; graceful restart on; connect delay time 1; connect retry time 1; ipv4 { import all; export none; }; }
protocol bgp server6 { local fd08::1 as %[1]d; neighbor fd08::2 as %[2]d; graceful restart on; connect delay time 1; connect retry time 1; ipv6 { import all; export none; }; }
`, routerAS, serverAS)

// nextHopsAnswer gives the server the next hops' addresses.
func nextHopsAnswer(t *testing.T, top *lab.Topology) {
	t.Helper()
	for i := range nextHops {
		answersAt(t, top.Server, lab.ServerLink, fmt.Sprintf("10.8.0.1%d/24", i+1), fmt.Sprintf("fd08::1%d/64", i+1))
	}
}

// status is the mirror's.
func (r *router) status() (st mirror.Status) {
	r.t.Helper()
	if err := r.get("/mirror", &st); err != nil {
		r.t.Fatal(err)
	}
	return st
}

// equal fails the test unless the router's tables become Linux's, entirely, within seconds:
// daemons may still be changing some routes.
func (r *router) equal() (v mirror.Verification) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for start := time.Now(); ; time.Sleep(effect) {
		v = mirror.Verification{}
		if err := socket.Get(ctx, r.socket, "/verify", &v); err != nil {
			r.t.Fatal(err)
		}
		if v.Different == 0 {
			return v
		}
		if time.Since(start) > 5*time.Second {
			r.t.Errorf("the tables differ from Linux's at %d of %d addresses, first %+v", v.Different, v.Addresses, v.Differences[:min(len(v.Differences), 5)])
			return v
		}
	}
}

// tables are the numbers of routes on both sides.
type tables struct{ linux4, linux6, router4, router6 int }

func tablesOf(t *testing.T, r *router, ns *lab.Namespace) (n tables) {
	t.Helper()
	n.linux4, n.linux6 = routesOfLinux(t, ns)
	st := r.status()
	n.router4, n.router6 = st.RoutesIPv4, st.RoutesIPv6
	return n
}

// converge waits until there are so many routes more than before, and returns how long
// after the start Linux had them, and the router.
func (before tables) converge(t *testing.T, r *router, ns *lab.Namespace, start time.Time, ipv4, ipv6 int) (linux, router time.Duration) {
	t.Helper()
	for linux == 0 || router == 0 {
		looking := time.Now()
		if linux == 0 {
			if n4, n6 := routesOfLinux(t, ns); n4 >= before.linux4+ipv4 && n6 >= before.linux6+ipv6 {
				linux = time.Since(start)
			}
		}
		now := r.status()
		if router == 0 && now.RoutesIPv4 >= before.router4+ipv4 && now.RoutesIPv6 >= before.router6+ipv6 {
			router = time.Since(start)
		}
		if time.Since(start) > 15*time.Minute {
			t.Fatalf("%+v at first; Linux has them all after %v (0: not yet), the router %d and %d; want %d and %d more", before, linux, now.RoutesIPv4, now.RoutesIPv6, ipv4, ipv6)
		}
		pause := 20 * time.Millisecond
		if linux == 0 { // it walks all its routes to count them, and must have time for other things
			pause = max(pause, 10*time.Since(looking))
		}
		time.Sleep(pause)
	}
	return linux, router
}

// Whichever daemon installs the internet's table, the router has it when Linux has
// it, and has what Linux has.
func TestTheInternetsTableByBGP(t *testing.T) {
	n4, n6 := tableSize()
	for _, d := range []struct {
		name  string
		share int // of the table
		start func(t *testing.T, ns *lab.Namespace)
	}{
		{"FRR", 1, func(t *testing.T, ns *lab.Namespace) { startFRR(t, ns, anyCore, frrConfig) }},
		{"BIRD", 2, func(t *testing.T, ns *lab.Namespace) { startBird(t, ns, anyCore, t.TempDir(), birdConfig) }},
	} {
		t.Run(d.name, func(t *testing.T) {
			top := newTopology(t, lab.VethOptions{})
			nextHopsAnswer(t, top)
			r := startRouter(t, top.Router, "--port", lab.LAN, "--port", lab.WAN)
			before := tablesOf(t, r, top.Router)
			dir := t.TempDir()
			table := announce(t, dir, n4/d.share, n6/d.share)
			n4, n6 := table.ipv4, table.ipv6
			d.start(t, top.Router)
			start := time.Now()
			b := startBird(t, top.Server, anyCore, dir, serverConfig(table.config))
			linux, router := before.converge(t, r, top.Router, start, n4, n6)
			comparing := time.Now()
			v := r.equal()
			t.Logf("%d IPv4 and %d IPv6 routes: Linux has them after %.2f s, the router after %.2f s (%.3f times); compared at %d addresses in %.2f s",
				v.RoutesIPv4, v.RoutesIPv6, linux.Seconds(), router.Seconds(), float64(router)/float64(linux), v.Addresses, time.Since(comparing).Seconds())
			slack := 100 * time.Millisecond // we look only now and then
			if !fullScale() {
				slack = time.Second // the table arrives in one, and other tests or the race detector may take as long
			}
			if router > linux*12/10+slack {
				t.Errorf("the router took %v, want at most 1.2 times Linux's %v", router, linux)
			}

			// A next hop's routes are withdrawn, both families, and announced again.
			start = time.Now()
			for _, f := range []string{"4", "6"} {
				b.do(t, "disable table"+f+"_1")
			}
			eventually(t, time.Minute, "withdrawn routes are gone", func() bool {
				st := r.status()
				return st.RoutesIPv4 <= before.router4+nextHops+n4*3/4 && st.RoutesIPv6 <= before.router6+nextHops+n6*3/4
			})
			t.Logf("withdrawn after %v", time.Since(start).Round(time.Millisecond))
			r.equal()
			for _, f := range []string{"4", "6"} {
				b.do(t, "enable table"+f+"_1")
			}
			start = time.Now()
			linux, router = before.converge(t, r, top.Router, start, n4, n6)
			t.Logf("announced again: Linux has them after %.2f s, the router after %.2f s", linux.Seconds(), router.Seconds())
			r.equal()
		})
	}
}
