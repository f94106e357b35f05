package e2e

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// BIRD in the server announces a full table to a daemon in the router, which installs it in Linux.
// Each of several next hops has its own static protocol in BIRD, which can be disabled.

const (
	routerAS, serverAS = 65001, 65002
	nextHops           = 4 // 10.8.0.11 and following, fd08::11 and following
)

// fullScale reports whether the tests run at full scale (`make test-scale`), which takes minutes.
func fullScale() bool { return os.Getenv("WARPROUTE_SCALE") == "full" }

// tableSize returns the number of announced routes.
func tableSize() (ipv4, ipv6 int) {
	if fullScale() {
		return 1_000_000, 200_000
	}
	return 50_000, 10_000
}

// status returns the state of the mirror.
func (r *router) status() (st mirror.Status) {
	r.T.Helper()
	require.NoError(r.T, r.Get("/mirror", &st))
	return st
}

// equal fails the test unless the router's tables equal Linux's within seconds: daemons may still
// be changing routes.
func (r *router) equal() (v mirror.Verification) {
	r.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for start := time.Now(); ; time.Sleep(effect) {
		v = mirror.Verification{}
		require.NoError(r.T, socket.Get(ctx, r.Socket, "/verify", &v))
		if v.Different == 0 {
			return v
		}
		if time.Since(start) > 5*time.Second {
			r.T.Errorf("the tables differ from Linux's at %d of %d addresses, first %+v", v.Different, v.Addresses, v.Differences[:min(len(v.Differences), 5)])
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

// converge waits for a number of added routes and returns the times from start until Linux and the
// router had them.
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
		if linux == 0 { // counting walks all routes in the kernel, so it must be rare
			pause = max(pause, 10*time.Since(looking))
		}
		time.Sleep(pause)
	}
	return linux, router
}

// The router has a full table at most 1.2 times as late as Linux, and the same routes, with either
// daemon.
func TestBGPInstallsAFullTable(t *testing.T) {
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
			slack := 100 * time.Millisecond // the polling interval
			if !fullScale() {
				slack = time.Second // a small table arrives at once, and the race detector is slow
			}
			if router > linux*12/10+slack {
				t.Errorf("the router took %v, want at most 1.2 times Linux's %v", router, linux)
			}

			// Withdraw and announce the routes of one next hop.
			start = time.Now()
			for _, f := range []string{"4", "6"} {
				b.do(t, "disable table"+f+"_1")
			}
			eventually(t, time.Minute, "the routes are withdrawn", func() bool {
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
