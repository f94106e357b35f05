package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
)

// chain is a client, two routers in a row that two links join, and a server.
type chain struct {
	t                      *testing.T
	client, r1, r2, server *lab.Namespace
}

// newChain builds a chain. Routes use mid0 in both directions.
func newChain(t *testing.T, opts lab.VethOptions) *chain {
	t.Helper()
	n := build(t, opts, `
client client0 10.1.0.2/24 fd01::2/64 -- r1 lan0 10.1.0.1/24 fd01::1/64
r1 mid0 10.12.0.1/24 fd12::1/64 -- r2 mid0 10.12.0.2/24 fd12::2/64
r1 mid1 10.13.0.1/24 fd13::1/64 -- r2 mid1 10.13.0.2/24 fd13::2/64
server server0 10.2.0.2/24 fd02::2/64 -- r2 wan0 10.2.0.1/24 fd02::1/64
client route default 10.1.0.1
client route default fd01::1
server route default 10.2.0.1
server route default fd02::1
r1 route 10.2.0.0/24 10.12.0.2
r1 route fd02::/64 fd12::2
r2 route 10.1.0.0/24 10.12.0.1
r2 route fd01::/64 fd12::1
server sysctl net.ipv4.icmp_ratelimit 0
server sysctl net.ipv6.icmp.ratelimit 0`)
	return &chain{t, n["client"], n["r1"], n["r2"], n["server"]}
}

// start starts both routers on all links.
func (c *chain) start() {
	c.t.Helper()
	startRouter(c.t, c.r1, "--port", "lan0", "--port", "mid0", "--port", "mid1")
	startRouter(c.t, c.r2, "--port", "mid0", "--port", "mid1", "--port", "wan0")
}

// families are the address families with the arguments of tools and the hops that they find.
var families = []struct {
	name, flag string
	client     string
	server     string
	hops       []string // from the client to the server, by the addresses where packets came in
}{
	{"IPv4", "-4", "10.1.0.2", "10.2.0.2", []string{"10.1.0.1", "10.12.0.2", "10.2.0.2"}},
	{"IPv6", "-6", "fd01::2", "fd02::2", []string{"fd01::1", "fd12::2", "fd02::2"}},
}

// setMTU sets the MTU of links and waits until the routers have it.
func setMTU(t *testing.T, mtu string, links map[string]*lab.Namespace) {
	t.Helper()
	for name, ns := range links {
		ip(t, ns, "link set "+name+" mtu "+mtu)
	}
	time.Sleep(2 * effect)
}

// farMTU sets the MTU of the link between r2 and the server.
func (c *chain) farMTU(mtu string) {
	c.t.Helper()
	setMTU(c.t, mtu, map[string]*lab.Namespace{"wan0": c.r2, "server0": c.server})
}

// pathMTU returns the client's cached MTU to an address, or "".
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
