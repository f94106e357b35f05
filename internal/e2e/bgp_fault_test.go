package e2e

import (
	"testing"
	"time"

	"github.com/warproute/warproute/internal/routes"
)

// Faults of routing daemons lose no packets, and the router's tables equal Linux's afterwards. FRR in
// the router has a table from BIRD in the server; the default routes lead to the other server.
func TestDaemonFaultsLoseNoPackets(t *testing.T) {
	f := newFork(t)
	nextHopsAnswer(t, f.Topology)
	f.ip(t, "route add default via 10.9.0.2", "-6 route add default via fd09::2", "route add 10.60.0.0/16 via 10.8.0.2")
	before := tablesOf(t, f.router, f.Router)
	frr := startFRR(t, f.Router, firstCore, frrConfig)
	dir := t.TempDir()
	table := announce(t, dir, 5000, 1000)
	config := serverConfig(table.config)
	b := startBird(t, f.Server, firstCore, dir, config)
	whole := func() {
		t.Helper()
		before.converge(t, f.router, f.Router, time.Now(), table.ipv4, table.ipv6)
	}
	whole()
	f.resolve(t)
	dsts := []string{table.destination(t, routes.IPv4, 0), table.destination(t, routes.IPv6, 0), "10.60.0.1"}
	for _, c := range []struct {
		name   string
		leaves bool // the routes are withdrawn meanwhile
		may    bool // or may be, by the daemon's timing
		fault  func()
	}{
		{"sessions closed and reopened", true, false, func() {
			b.do(t, `disable "router*"`)
			eventually(t, 20*time.Second, "the routes are withdrawn", func() bool {
				st := f.router.status()
				return st.RoutesIPv4 <= before.router4+2*nextHops && st.RoutesIPv6 <= before.router6+2*nextHops
			})
			f.router.equal()
			b.do(t, `enable "router*"`)
			whole()
		}},
		{"peer killed, graceful restart", false, false, func() {
			kill(t, b.Process)
			time.Sleep(5 * effect)
			b = startBird(t, f.Server, firstCore, dir, config, "-R")
			eventually(t, 30*time.Second, "the sessions are up", func() bool { return b.established(t) })
			eventually(t, 30*time.Second, "all routes are announced again", func() bool { return frr.heardAll(t) })
			whole()
			time.Sleep(5 * effect)
		}},
		{"bgpd killed and restarted", false, true, func() {
			kill(t, frr.bgpd.Process)
			time.Sleep(5 * effect)
			frr.startBGP(t)
			eventually(t, 60*time.Second, "the sessions are up", func() bool { return b.established(t) })
			whole()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.router.T = t
			start := time.Now()
			outages := f.during(t, c.fault, dsts...)
			t.Logf("%+v, after %v", outages, time.Since(start).Round(time.Millisecond))
			for flow, o := range outages {
				if o.lost > 0 {
					t.Errorf("flow %d: %d packets lost, an outage of %v", flow, o.lost, o.lasted)
				}
				if left := o.atOther > 0; flow < 2 && left != c.leaves && !c.may || flow == 2 && left {
					t.Errorf("flow %d: %d packets by the default route", flow, o.atOther)
				}
			}
		})
	}
}
