package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/routes"
)

const borderDocument = "../../docs/howto/frr-border-router.md"

// border is the network of the how-to, with FRR and the router in edge1, and upstreams that announce the same table.
type border struct {
	lab.Network
	t        *testing.T
	router   *router
	frr      *frr
	up       [2]*bird
	accepted int          // routes that the how-to's filters accept, of each upstream
	dsts     []netip.Addr // addresses behind both upstreams, in different routes
}

// The border router of the how-to, with its configuration and full tables of both upstreams, has the routes of the first one,
// and all of the second one after the first one's link is down.
func TestBorderRouterWithFullTables(t *testing.T) {
	t.Parallel()
	b := newBorder(t)
	edge := b.Network["edge1"]
	n, _ := tableSize()
	table := b.choose(n)

	before := tablesOf(t, b.router, edge)
	start := time.Now()
	for i := range 2 {
		b.startUpstream(i, table, "")
	}
	linux, router := before.converge(t, b.router, edge, start, b.accepted, 0)
	t.Logf("%d routes: Linux has them after %.1f s, the router after %.1f s", b.accepted, linux.Seconds(), router.Seconds())
	eventually(t, 10*time.Minute, "both upstreams have announced all", func() bool {
		n := b.received()
		return n[0] == n[1] && n[0] >= b.accepted
	})
	t.Logf("FRR has %d routes of each upstream after %.1f s", b.received()[1], time.Since(start).Seconds())
	b.moved("wan1", "192.0.2.2", before, start)

	labtest.IP(t, b.Network["up1"], "link set eth0 down")
	start = time.Now()
	b.moved("wan2", "203.0.113.2", before, start)
}

// newBorder builds the network, with replacements in the configuration of FRR.
func newBorder(t *testing.T, replace ...string) *border {
	t.Helper()
	n, err := lab.Build(lab.VethOptions{}, `
host1 eth0 198.51.100.2/24 -- edge1 lan0 198.51.100.1/24
edge1 wan1 192.0.2.1/24 -- up1 eth0 192.0.2.2/24
edge1 wan2 203.0.113.1/24 -- up2 eth0 203.0.113.2/24
host1 route default 198.51.100.1`)
	require.NoError(t, err)
	t.Cleanup(n.Close)
	b := &border{Network: n, t: t}
	b.startRouter()
	config := labtest.Block(t, borderDocument, "bgp router-id")
	if len(replace) > 0 && !strings.Contains(config, replace[0]) {
		t.Fatalf("the configuration of FRR has no %q", replace[0])
	}
	b.frr = startFRR(t, n["edge1"], anyCore, strings.NewReplacer(replace...).Replace(config))
	return b
}

// startRouter starts the router with the configuration of the how-to.
func (b *border) startRouter() {
	b.t.Helper()
	b.router = startConfigured(b.t, b.Network["edge1"], labtest.Block(b.t, borderDocument, "interface: lan0"))
}

// choose returns a table of n routes as configuration of upstreams. It counts those that the how-to's filters accept, and gives
// upstreams addresses in some of them.
func (b *border) choose(n int) string {
	b.t.Helper()
	table := announcement{byHop: map[int][nextHops][]netip.Prefix{}}
	table.add(b.t, b.t.TempDir(), routes.IPv4, n)
	own := netip.MustParsePrefix("198.51.100.0/24")
	links := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("203.0.113.0/24")}
	for hop, prefixes := range table.byHop[int(routes.IPv4)] {
		for i, p := range prefixes {
			addr := p.Addr().Next()
			if p.Bits() > 24 || p == own || p == links[0] || p == links[1] {
				continue
			}
			b.accepted++
			if i == len(prefixes)*(hop+1)/(nextHops+1) && !own.Contains(addr) && !links[0].Contains(addr) && !links[1].Contains(addr) {
				b.dsts = append(b.dsts, addr)
			}
		}
	}
	if len(b.dsts) == 0 {
		b.t.Fatal("the table has no destination")
	}
	for _, up := range []string{"up1", "up2"} {
		for _, dst := range b.dsts {
			labtest.IP(b.t, b.Network[up], fmt.Sprintf("addr add %v/32 dev lo", dst))
		}
	}
	return table.config
}

// startUpstream starts BIRD as an upstream with a table, options of BGP, and flags.
func (b *border) startUpstream(i int, table, options string, flags ...string) {
	b.t.Helper()
	link := []string{"192.0.2.", "203.0.113."}[i]
	config := fmt.Sprintf("router id %s2;\nprotocol device {}\nprotocol kernel { ipv4 { import none; export where source = RTS_BGP; }; graceful restart on; persist; }\n%s", link, table)
	config += fmt.Sprintf("protocol bgp { local %[1]s2 as %[2]d; neighbor %[1]s1 as 64500; graceful restart on; connect delay time 1; connect retry time 1; error wait time 1, 1; %[3]s ipv4 { import all; export where source = RTS_STATIC; }; }\n", link, 64501+i, options)
	b.up[i] = startBird(b.t, b.Network[fmt.Sprintf("up%d", i+1)], anyCore, b.t.TempDir(), config, flags...)
}

// received returns the numbers of routes that FRR has accepted from the upstreams.
func (b *border) received() (n [2]int) {
	b.t.Helper()
	var summary struct {
		Peers map[string]struct {
			Received int `json:"pfxRcd"`
		}
	}
	out, err := b.Network["edge1"].Run("vtysh", "--vty_socket", b.frr.dir, "-c", "show bgp ipv4 unicast summary json")
	if err == nil && json.Unmarshal([]byte(out), &summary) == nil { // bgpd may be too busy to answer
		n = [2]int{summary.Peers["192.0.2.2"].Received, summary.Peers["203.0.113.2"].Received}
	}
	return n
}

// moved waits until all routes leave by a port, in Linux and in the router, and packets pass.
func (b *border) moved(port, via string, before tables, start time.Time) {
	b.t.Helper()
	edge := b.Network["edge1"]
	other := strings.NewReplacer("192.0.2.2", "203.0.113.2", "203.0.113.2", "192.0.2.2").Replace(via)
	first := time.Duration(0)
	eventually(b.t, 10*time.Minute, "all routes lead to "+via, func() bool {
		time.Sleep(200 * time.Millisecond)
		if _, err := b.ping(b.dsts[0]); err == nil && first == 0 {
			first = time.Since(start)
		}
		return labtest.Run(b.t, edge, "sh", "-c", "ip -4 route show via "+other+" | head -n 1") == "" && tablesOf(b.t, b.router, edge).linux4 >= before.linux4+b.accepted-2
	})
	b.t.Logf("a first packet passes after %.1f s, all routes lead to %s after %.1f s", first.Seconds(), via, time.Since(start).Seconds())
	v := b.router.equal()
	b.t.Logf("%d IPv4 routes, compared at %d addresses", v.RoutesIPv4, v.Addresses)
	for _, dst := range b.dsts {
		if out := b.router.command("route", "lookup", dst.String())(); !strings.Contains(out, via) || !strings.Contains(out, port) {
			b.t.Errorf("the route to %v does not lead to %s by %s:\n%s", dst, via, port, out)
		}
		if _, err := b.ping(dst); err != nil {
			b.t.Errorf("%v: %v", dst, err)
		}
	}
}

func (b *border) ping(dst netip.Addr) (lab.PingResult, error) {
	return lab.Ping(b.Network["host1"], dst, lab.PingOptions{Count: 1, Timeout: time.Second})
}
