package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
)

// hop is a line of traceroute, tracepath or mtr: the hop's number, and its first address.
var hop = regexp.MustCompile(`(?m)^ *(\d+)(?:\.\|--|:|) +([0-9a-f.:]*[.:][0-9a-f.:]*) .*$`)

// hopsOf returns the addresses of the hops in a tool's output. It fails the test if a hop has two
// addresses or lost probes.
func hopsOf(t *testing.T, out string) (hops []string) {
	t.Helper()
	for _, m := range hop.FindAllStringSubmatch(out, -1) {
		if n := fmt.Sprint(len(hops) + 1); m[1] == n {
			hops = append(hops, m[2])
		} else if len(hops) == 0 || m[2] != hops[len(hops)-1] {
			t.Errorf("hop %s, %s, stands behind %v:\n%s", m[1], m[2], hops, out)
		}
		if strings.ContainsAny(m[0], "*!") {
			t.Errorf("a probe was lost, or not answered as it should be: %s", m[0])
		}
	}
	return hops
}

// traceroute waits for late replies, which a busy machine causes.
const traceroute = "traceroute -n -w 3,0,0"

// traceroute, mtr and tracepath see the routers' ingress addresses in order and reach the destination.
func TestHops(t *testing.T) {
	c := newChain(t, lab.VethOptions{})
	c.start()
	for _, f := range families {
		c.pings(t, "to begin with", f.server, 56)
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			for _, tool := range []string{
				// In this order, because routers send a source ten errors per second, and mtr is slow.
				traceroute, "mtr -n -r -c 3 -i 0.2 -G 0.5", traceroute + " -I", "mtr -n -r -c 3 -i 0.2 -G 0.5 -u",
				traceroute + " -T", "mtr -n -r -c 3 -i 0.2 -G 0.5 -T", "tracepath -n",
			} {
				args := append(strings.Fields(tool), f.flag, f.server)
				byTCP := strings.HasSuffix(tool, "-G 0.5 -T")
				out := must(t, c.client, args[0], args[1:]...)
				// With TCP, mtr itself misses replies, sometimes all of a hop.
				for tries := 4; byTCP && tries > 0 && strings.Contains(out, "???"); tries-- {
					out = must(t, c.client, args[0], args[1:]...)
				}
				if got := hopsOf(t, out); !slices.Equal(got, f.hops) {
					t.Errorf("%s: %v, want %v:\n%s", tool, got, f.hops, out)
				}
				if args[0] == "mtr" && !byTCP && strings.Count(out, " 0.0% ") != len(f.hops) {
					t.Errorf("%s lost probes:\n%s", tool, out)
				}
			}
		})
	}
}

// trace returns the hops that traceroute finds.
func (c *chain) trace(t *testing.T, args ...string) []string {
	t.Helper()
	all := append(strings.Fields(traceroute), args...)
	return hopsOf(t, must(t, c.client, all[0], all[1:]...))
}

// With asymmetric routes, errors have the ingress address as their source, or another address of the
// router if the ingress port has none.
func TestTracerouteSeesIngressAddressesOfAsymmetricRoutes(t *testing.T) {
	c := newChain(t, lab.VethOptions{})
	c.start()
	ip(t, c.r2, "route replace 10.1.0.0/24 via 10.13.0.1", "route replace fd01::/64 via fd13::1")
	time.Sleep(effect)
	trace := func(family int) []string {
		f := families[family]
		return c.trace(t, f.flag, f.server)
	}
	for i, f := range families {
		if got := trace(i); !slices.Equal(got, f.hops) {
			t.Errorf("%s there by mid0, back by mid1: %v, want %v", f.name, got, f.hops)
		}
	}

	// Packets arrive at mid1, without an IPv4 address, by an IPv6 next hop.
	ip(t, c.r2, "addr del 10.13.0.2/24 dev mid1")
	ip(t, c.r1, "route replace 10.2.0.0/24 via inet6 fd13::2 dev mid1")
	ip(t, c.r2, "route replace 10.1.0.0/24 via inet6 fd13::1 dev mid1")
	time.Sleep(effect)
	if got, want := trace(0), []string{"10.1.0.1", "10.2.0.1", "10.2.0.2"}; !slices.Equal(got, want) {
		t.Errorf("IPv4 by a link that has no IPv4 addresses: %v, want %v", got, want)
	}
}
