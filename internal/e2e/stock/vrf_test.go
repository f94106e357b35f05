package stock

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// newVRFNetwork has two networks with the same addresses, in VRFs red and blue, each with a client. The server is in none,
// and red leaks to it. A second server is in blue.
//
//	client 10.1.0.2 ── lan0 10.1.0.1 (red, table 10)      wan0 10.2.0.1 (no VRF) ── server 10.2.0.2
//	other  10.1.0.2 ── lan1 10.1.0.1 (blue, table 20)     wan1 10.3.0.1 (blue) ── second 10.3.0.2
func newVRFNetwork(t *testing.T) lab.Network {
	t.Helper()
	n, err := lab.Build(lab.VethOptions{}, `
client lan0 -- router lan0
other lan1 -- router lan1
router wan0 -- server wan0
router wan1 -- second wan1`)
	require.NoError(t, err)
	t.Cleanup(n.Close)
	for ns, link := range map[string]string{"client": "lan0", "other": "lan1"} {
		labtest.IP(t, n[ns], "addr add 10.1.0.2/24 dev "+link, "addr add fd01::2/64 dev "+link+" nodad", "route add default via 10.1.0.1", "-6 route add default via fd01::1")
	}
	labtest.IP(t, n["server"], "addr add 10.2.0.2/24 dev wan0", "addr add fd02::2/64 dev wan0 nodad", "route add default via 10.2.0.1", "-6 route add default via fd02::1")
	labtest.IP(t, n["second"], "addr add 10.3.0.2/24 dev wan1", "addr add fd03::2/64 dev wan1 nodad", "route add default via 10.3.0.1", "-6 route add default via fd03::1")
	r := n["router"]
	labtest.IP(t, r, "link add red type vrf table 10", "link set red up", "link add blue type vrf table 20", "link set blue up",
		"link set lan0 master red", "link set lan1 master blue", "link set wan1 master blue",
		"addr add 10.1.0.1/24 dev lan0", "addr add fd01::1/64 dev lan0 nodad", "addr add 10.1.0.1/24 dev lan1", "addr add fd01::1/64 dev lan1 nodad",
		"addr add 10.2.0.1/24 dev wan0", "addr add fd02::1/64 dev wan0 nodad", "addr add 10.3.0.1/24 dev wan1", "addr add fd03::1/64 dev wan1 nodad")
	for _, table := range []string{"10", "20"} {
		labtest.IP(t, r, "route add unreachable default table "+table+" metric 4278198272", "-6 route add unreachable default table "+table+" metric 4278198272")
	}
	labtest.IP(t, r, leaks...)
	return n
}

// leaks are routes from red to the server and back.
var leaks = []string{
	"route add 10.2.0.0/24 dev wan0 table 10", "-6 route add fd02::/64 dev wan0 table 10",
	"route add 10.1.0.0/24 dev lan0", "-6 route add fd01::/64 dev lan0",
}

var vrfProbes = []probe{
	{"10.2.0.2", 0, 0}, {"fd02::2", 0, 0}, {"10.2.0.2", 0, 2}, {"10.3.0.2", 0, 0}, {"fd03::2", 0, 0},
	{"10.1.0.1", 0, 0}, {"fd01::1", 0, 0}, {"10.9.0.1", 0, 0}, {"fd09::1", 0, 0}, {"10.2.0.77", 0, 0},
}

// expiring are probes to the networks of red and blue whose TTL expires. Linux looks for a route first.
var expiring = [2][]probe{{{"10.2.0.2", 0, 1}, {"fd02::2", 0, 1}}, {{"10.3.0.2", 0, 1}, {"fd03::2", 0, 1}}}

// outcomesOf returns the outcomes of pings from red and blue. Linux has code 0 for unreachable routes in IPv6, the router
// 3 (CONFORMANCE.md).
func outcomesOf(red, blue lab.Network) (all []string) {
	for i, n := range []lab.Network{red, blue} {
		all = append(all, outcomes(n, slices.Concat(vrfProbes, expiring[i]))...)
	}
	for i, text := range all {
		if strings.HasPrefix(text, "fd") {
			all[i] = strings.Replace(text, "destination unreachable, code 3", "destination unreachable, code 0", 1)
		}
	}
	return all
}

// Ports in VRFs, and routes that leak between them, have the outcomes of Linux. VRFs change while the router runs.
func testVRFs(t *testing.T, program string) {
	n := newVRFNetwork(t)
	router := labtest.Start(t, n["router"], program, nil, "--port", "lan0", "--port", "lan1", "--port", "wan0", "--port", "wan1", "--engine", "cpu", "--metrics", "none")
	reaches(t, n, "10.2.0.2", "fd02::2")
	blue := lab.Network{"client": n["other"], "server": n["second"]}
	reaches(t, blue, "10.3.0.2", "fd03::2")
	if _, err := lab.Transfer(n["client"], n["server"], netip.MustParseAddr("10.2.0.2"), 1<<17, 10*time.Second); err != nil {
		t.Errorf("TCP from red to a port in no VRF: %v", err)
	}
	ours := outcomesOf(n, blue)
	var answer status.Answer
	require.NoError(t, router.Get("/route?addr=10.2.0.9&vrf=red", &answer))
	if !answer.Found || answer.Prefix.String() != "10.2.0.0/24" {
		t.Errorf("route lookup --vrf red: %+v", answer)
	}
	if err := router.Get("/route?addr=10.2.0.9&vrf=green", &answer); err == nil || !strings.Contains(err.Error(), "the router has blue, red") {
		t.Errorf("route lookup --vrf green: %v", err)
	}

	// red is deleted, and created with another table: its packets never take the routes of blue, which has their addresses.
	labtest.IP(t, n["router"], "link del red", "link add red type vrf table 30", "link set red up", "link set lan0 master red")
	labtest.IP(t, n["router"], "route add unreachable default table 30 metric 4278198272", "addr replace fd01::1/64 dev lan0 nodad")
	if got := outcomes(n, []probe{{"10.3.0.2", 0, 0}, {"10.2.0.2", 0, 0}}); strings.Contains(strings.Join(got, ""), "a reply") {
		t.Errorf("without routes: %q", got)
	}
	labtest.IP(t, n["router"], "route add 10.2.0.0/24 dev wan0 table 30", "route replace 10.1.0.0/24 dev lan0")
	reaches(t, n, "10.2.0.2")
	var v struct{ Different int }
	require.NoError(t, router.Get("/verify", &v))
	if v.Different != 0 {
		t.Errorf("%d differences from Linux", v.Different)
	}
	account, text := router.Stop(), router.Out.String()
	if account.Arrived != account.Linux+account.Lost+account.Received {
		t.Errorf("the router's account: %+v\n%s", account, text)
	}

	// Linux's forwarding, without the router, has the same outcomes.
	again := newVRFNetwork(t)
	labtest.Run(t, again["router"], "sysctl", "-qw", "net.ipv4.conf.all.forwarding=1", "net.ipv6.conf.all.forwarding=1", "net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0", "net.ipv4.icmp_ratemask=0")
	blue = lab.Network{"client": again["other"], "server": again["second"]}
	if linux := outcomesOf(again, blue); !slices.Equal(ours, linux) {
		t.Errorf("outcomes of the router:\n%s\nof Linux:\n%s", strings.Join(ours, "\n"), strings.Join(linux, "\n"))
	}
}
