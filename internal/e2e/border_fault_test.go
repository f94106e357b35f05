package e2e

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
)

// The border router of the how-to keeps and moves its routes as the how-to says: when daemons are killed, with and without return, and
// when an upstream is lost while its link is up. Packets are lost by the latter, and for less than 250 ms by an upstream's return.
func TestBorderRouterSurvivesDaemonFaults(t *testing.T) {
	b := newBorder(t, "timers bgp 10 30", "timers bgp 1 3")
	table := b.choose(2000)
	before := tablesOf(t, b.router, b.Network["edge1"])
	b.startUpstream(1, table, "")
	first := func() { b.t.Helper(); b.moved("wan1", "192.0.2.2", before, time.Now()) }
	second := func() { b.t.Helper(); b.moved("wan2", "203.0.113.2", before, time.Now()) }

	for _, c := range []struct {
		name    string
		options string // of BGP in the first upstream
		fault   func()
		lossy   bool
		brief   bool // no two pings in a row may be lost: BIRD replaces its route to edge1 when it returns
	}{
		{"upstream's daemon killed, returns within its restart time", "graceful restart time 60;", func() {
			kill(b.t, b.up[0].Process)
			b.stays()
			b.startUpstream(0, table, "graceful restart time 60;", "-R")
			eventually(b.t, 30*time.Second, "the session is up again", func() bool { return strings.Contains(b.up[0].do(b.t, "show protocols"), "Established") })
			b.stays()
			b.both()
			first()
		}, false, true},
		{"upstream's daemon killed, does not return", "graceful restart time 4;", func() {
			kill(b.t, b.up[0].Process)
			second()
		}, false, false},
		{"upstream's daemon killed, without graceful restart", "graceful restart off;", func() {
			kill(b.t, b.up[0].Process)
			second()
		}, false, false},
		{"upstream lost, link up", "", func() {
			labtest.Run(b.t, b.Network["up1"], "nft", "add table inet lost; add chain inet lost in { type filter hook input priority 0; policy drop; }; add chain inet lost out { type filter hook output priority 0; policy drop; }")
			second()
			labtest.Run(b.t, b.Network["up1"], "nft", "delete table inet lost")
		}, true, false},
		{"own bgpd killed and restarted", "", func() {
			kill(b.t, b.frr.bgpd.Process)
			b.stays()
			b.frr.startBGP(t) // until the test ends
			b.both()
			b.stays()
			first()
		}, false, false},
		{"router killed and restarted", "", func() {
			kill(b.t, b.router.Process)
			b.stays()
			b.both()
			b.startRouter()
			first()
		}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.t, b.router.T = t, t
			b.startUpstream(0, table, c.options)
			b.both()
			first()
			timeout := time.Second
			if c.brief {
				timeout = 250 * time.Millisecond // so that longer outages lose two
			}
			lost := b.pings(timeout)
			c.fault()
			n, longest, first := lost()
			t.Logf("%d pings lost, up to %d in a row", n, longest)
			if (n > 0) != c.lossy && !(longest <= 1 && c.brief) {
				t.Errorf("%d pings lost, %d in a row, lossy: %v\n%s", n, longest, c.lossy, first)
			}
			_ = b.up[0].Process.Signal(unix.SIGKILL) // if it runs
		})
	}
}

// both waits until both upstreams have announced all routes.
func (b *border) both() {
	b.t.Helper()
	eventually(b.t, 30*time.Second, "both upstreams have announced all", func() bool {
		n := b.received()
		return n[0] == n[1] && n[0] >= b.accepted
	})
}

// stays fails the test if routes leave the first upstream within more than the hold time.
func (b *border) stays() {
	b.t.Helper()
	for range 25 {
		time.Sleep(200 * time.Millisecond)
		if out := labtest.Run(b.t, b.Network["edge1"], "sh", "-c", "ip -4 route show via 203.0.113.2 | head -n 1"); out != "" {
			b.t.Errorf("a route has moved: %s", out)
			return
		}
	}
}

// pings sends pings behind the upstreams until the returned function is called, which returns how many got no answer, how
// many in a row, and what the namespaces and the router knew when the first one was lost.
func (b *border) pings(timeout time.Duration) func() (lost, longest int, first string) {
	type result struct {
		lost, run int // in all, and in the last run
		longest   int // run
		first     chan string
	}
	stop, results, socket := make(chan struct{}), make(chan result, 1), b.router.Socket
	end := sync.OnceFunc(func() { close(stop) })
	b.t.Cleanup(end)
	go func() {
		r := result{first: make(chan string, 1)}
		for {
			select {
			case <-stop:
				results <- r
				return
			default:
			}
			if _, err := lab.Ping(b.Network["host1"], b.dsts[0], lab.PingOptions{Count: 1, Timeout: timeout}); err != nil {
				if r.lost++; r.lost == 1 {
					go func() { r.first <- b.wayOf(socket, b.dsts[0]) }() // other pings go on
				}
				r.run++
				r.longest = max(r.longest, r.run)
			} else {
				r.run = 0
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return func() (int, int, string) {
		end()
		r := <-results
		if r.lost == 0 {
			return 0, 0, ""
		}
		return r.lost, r.longest, <-r.first
	}
}

// wayOf returns the routes and neighbors on the way to dst and back, and the router's decision and drops.
func (b *border) wayOf(socket string, dst netip.Addr) string {
	var text strings.Builder
	add := func(name string, out string, err error) { fmt.Fprintf(&text, "%s:\n%s%v\n", name, out, err) }
	fmt.Fprintln(&text, time.Now().Format(time.StampMilli))
	for _, ns := range []string{"host1", "edge1", "up1", "up2"} {
		to := dst
		if ns != "host1" && ns != "edge1" {
			to = netip.MustParseAddr("198.51.100.2")
		}
		out, err := b.Network[ns].Run("ip", "route", "get", to.String())
		add(ns+", route to "+to.String(), out, err)
		out, err = b.Network[ns].Run("ip", "neigh")
		add(ns+", neighbors", out, err)
	}
	for _, args := range [][]string{{"route", "lookup", dst.String()}, {"show", "drops"}} {
		out, err := exec.Command(program, append(args, "--socket", socket)...).CombinedOutput()
		add("router, "+strings.Join(args, " "), string(out), err)
	}
	return text.String()
}
