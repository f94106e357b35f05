package e2e

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
)

// chain is two routers in a row, joined by two links:
//
//	        10.1.0.0/24         10.12.0.0/24          10.2.0.0/24
//	client ───────────── lan0 r1 mid0 ── mid0 r2 wan0 ───────────── server
//	 .2  ::2  fd01::/64   .1     mid1 ── mid1      .1  fd02::/64   .2  ::2
//	                            10.13.0.0/24
//
// On a link between the routers r1 is .1 and r2 .2, and so in fd12::/64 and
// fd13::/64. Routes lead by mid0, both ways.
type chain struct {
	t                      *testing.T
	client, r1, r2, server *lab.Namespace
}

func newChain(t *testing.T, opts lab.VethOptions) *chain {
	t.Helper()
	c := &chain{t: t}
	for _, n := range []struct {
		ns   **lab.Namespace
		name string
	}{{&c.client, "client"}, {&c.r1, "r1"}, {&c.r2, "r2"}, {&c.server, "server"}} {
		var err error
		if *n.ns, err = lab.New(n.name); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*n.ns).Close() })
	}
	for _, s := range []struct {
		ns      *lab.Namespace
		setting string
	}{
		{c.r1, "net.ipv4.ip_forward"}, {c.r1, "net.ipv6.conf.all.forwarding"},
		{c.r2, "net.ipv4.ip_forward"}, {c.r2, "net.ipv6.conf.all.forwarding"},
		{c.server, "net.ipv4.icmp_ratelimit"}, {c.server, "net.ipv6.icmp.ratelimit"}, // it answers every probe
	} {
		if err := s.ns.Sysctl(s.setting, "0"); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range []struct {
		a     *lab.Namespace
		nameA string
		b     *lab.Namespace
		nameB string
		net   string // "1": 10.1.0.0/24 and fd01::/64
		hosts string // of a and of b, as last digits
	}{
		{c.client, "client0", c.r1, "lan0", "1", "21"},
		{c.r1, "mid0", c.r2, "mid0", "12", "12"},
		{c.r1, "mid1", c.r2, "mid1", "13", "12"},
		{c.server, "server0", c.r2, "wan0", "2", "21"},
	} {
		if err := lab.Veth(lab.End{Namespace: l.a, Name: l.nameA}, lab.End{Namespace: l.b, Name: l.nameB}, opts); err != nil {
			t.Fatal(err)
		}
		net6 := "fd" + strings.Repeat("0", 2-len(l.net)) + l.net
		for _, a := range []string{"10." + l.net + ".0.%/24", net6 + "::%/64"} {
			for i, end := range []struct {
				ns   *lab.Namespace
				link string
			}{{l.a, l.nameA}, {l.b, l.nameB}} {
				if err := end.ns.AddAddr(end.link, netip.MustParsePrefix(strings.Replace(a, "%", l.hosts[i:i+1], 1))); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	must(t, c.client, "ip", "route", "add", "default", "via", "10.1.0.1")
	must(t, c.client, "ip", "route", "add", "default", "via", "fd01::1")
	must(t, c.server, "ip", "route", "add", "default", "via", "10.2.0.1")
	must(t, c.server, "ip", "route", "add", "default", "via", "fd02::1")
	must(t, c.r1, "ip", "route", "add", "10.2.0.0/24", "via", "10.12.0.2")
	must(t, c.r1, "ip", "route", "add", "fd02::/64", "via", "fd12::2")
	must(t, c.r2, "ip", "route", "add", "10.1.0.0/24", "via", "10.12.0.1")
	must(t, c.r2, "ip", "route", "add", "fd01::/64", "via", "fd12::1")
	return c
}

// start starts both routers on all their links.
func (c *chain) start() {
	c.t.Helper()
	startRouter(c.t, c.r1, "--port", "lan0", "--port", "mid0", "--port", "mid1")
	startRouter(c.t, c.r2, "--port", "mid0", "--port", "mid1", "--port", "wan0")
}

// families are what a tool is told, and what it finds, for each.
var families = []struct {
	name, flag string
	server     string
	hops       []string // from the client to the server, by the addresses where packets came in
}{
	{"IPv4", "-4", "10.2.0.2", []string{"10.1.0.1", "10.12.0.2", "10.2.0.2"}},
	{"IPv6", "-6", "fd02::2", []string{"fd01::1", "fd12::2", "fd02::2"}},
}

// setMTU sets the MTU of links, and gives the routers the time to learn it.
func setMTU(t *testing.T, mtu string, links map[string]*lab.Namespace) {
	t.Helper()
	for name, ns := range links {
		must(t, ns, "ip", "link", "set", name, "mtu", mtu)
	}
	time.Sleep(2 * effect)
}

// farMTU sets the MTU of the link between r2 and the server.
func (c *chain) farMTU(mtu string) {
	c.t.Helper()
	setMTU(c.t, mtu, map[string]*lab.Namespace{"wan0": c.r2, "server0": c.server})
}

// pathMTU is what the client's Linux knows of the MTU to an address, "" if nothing.
func (c *chain) pathMTU(to string) string {
	c.t.Helper()
	f := strings.Fields(must(c.t, c.client, "ip", "route", "get", to))
	for i := range f[:len(f)-1] {
		if f[i] == "mtu" {
			return f[i+1]
		}
	}
	return ""
}
