package mirror

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
)

// TestRandomChanges makes hundreds of random changes and compares the mirror with Linux and with a
// new mirror.
func TestRandomChanges(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { randomChanges(t, seed) })
	}
}

func randomChanges(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t)
	// With forwarding off, Linux selects among equal IPv6 routes by neighbor state; with forwarding
	// on, there are also anycast addresses.
	require.NoError(t, w.router.Sysctl("net.ipv6.conf.all.forwarding", "1"))
	for _, link := range []string{"lan", "wan", "oob"} {
		require.NoError(t, w.router.Sysctl("net.ipv6.conf."+link+".keep_addr_on_down", "1"))
	}
	w.start()
	script := randomScript{random}
	for round := range 40 {
		var lines []string
		for range 20 {
			lines = append(lines, script.line())
		}
		// Some fail because a route exists or a link is down, but all have valid syntax.
		if out, _ := w.batch(w.router, lines...); strings.Contains(out, "Error: \"") || strings.Contains(out, "Error: arg") {
			t.Fatal(out)
		}
		w.m.settle()
		w.sameAsLinux(random)
		if round%5 == 4 {
			w.sameAsFresh()
		}
		if t.Failed() {
			t.Fatalf("seed %d, round %d, after\n%s", seed, round, strings.Join(lines, "\n"))
		}
	}
	for _, warning := range w.m.Status().Warnings {
		t.Errorf("warning: %s", warning)
	}
	if w.fib.NextHop(0).Kind() != fib.KindNone {
		t.Error("next hop 0 was written")
	}
}

// randomScript generates `ip` commands with few prefixes, gateways and objects, so that they
// interact.
type randomScript struct{ *rand.Rand }

func (r randomScript) pick(of ...string) string { return of[r.IntN(len(of))] }

func (r randomScript) line() string {
	switch n := r.IntN(100); {
	case n < 45:
		return r.route4()
	case n < 70:
		return r.route6()
	case n < 80:
		return r.neighbor()
	case n < 93:
		return r.nexthop()
	case n < 97:
		return "addr " + r.pick("add", "del") + " " + r.pick("10.9.0.1/24", "20.0.0.1/30", "fd09::1/64", "10.1.0.1/24", "10.1.0.5/24") + " dev " + r.pick("lan", "wan")
	default:
		return "link set " + r.pick("lan", "wan", "oob") + " " + r.pick("down", "up", "up", "up")
	}
}

func (r randomScript) prefix4() string {
	bits := 8 + r.IntN(25)
	ip := netip.AddrFrom4([4]byte{20, byte(r.IntN(4)), byte(r.IntN(2)) * 128, byte(r.IntN(4))})
	return netip.PrefixFrom(ip, bits).Masked().String()
}

func (r randomScript) route4() string {
	hop := func() string {
		return r.pick("via 10.1.0.2", "via 10.1.0.3", "via 10.2.0.2", "via 10.2.0.3", "via 10.3.0.2", "via inet6 fd02::2")
	}
	route := r.prefix4() + r.pick("", "", " metric 10", " metric 20") + r.pick("", "", "", " mtu 1300", " mtu lock 1400")
	to := " " + r.pick(hop(), hop(), hop(), "dev lan", "dev wan",
		"nexthop "+hop()+" weight 3 nexthop "+hop(), "nexthop "+hop()+" nexthop "+hop()+" nexthop "+hop(),
		"nhid "+r.pick("1", "2", "3", "4", "10", "11"))
	switch r.IntN(8) {
	case 0:
		route += " src " + r.pick("10.9.0.1", "10.1.0.1")
	case 1:
		route, to = r.pick("blackhole ", "unreachable ", "prohibit ")+route, ""
	}
	verb := r.pick("add", "add", "replace", "append", "prepend", "change", "del", "del")
	if verb == "del" {
		to = r.pick(to, "")
	}
	return "route " + verb + " " + route + to
}

// route6 returns a command for an IPv6 route. Routes that Linux joins have other metrics than the
// rest. Only routes that Linux does not join have MTUs: the paths of one route share an MTU that
// depends on the order of earlier commands.
func (r randomScript) route6() string {
	ip := netip.AddrFrom16([16]byte{0xfd, 0x20, 2: byte(r.IntN(4)), 15: byte(r.IntN(4))})
	prefix := netip.PrefixFrom(ip, []int{16, 22, 24, 64, 127, 128}[r.IntN(6)]).Masked().String()
	hop := func() string {
		return r.pick("via fd01::2", "via fd01::3", "via fd02::2", "via fd02::3", "via fd03::2")
	}
	route := prefix + r.pick(" metric 10 ", " metric 20 ") + r.pick(hop(), hop(), hop(), "nexthop "+hop()+" nexthop "+hop()+" weight 2")
	switch r.IntN(6) {
	case 0:
		route = prefix + " metric 30 " + r.pick("dev lan", "dev wan", "mtu 1300 dev lan", "mtu lock 1400 dev wan", "nhid 6", "nhid 12")
	case 1:
		route = r.pick("blackhole ", "unreachable ", "prohibit ") + prefix + " metric 30 dev lo"
	}
	verb := r.pick("add", "add", "replace", "append", "del", "del")
	if verb == "replace" && strings.Contains(route, "metric 30") {
		verb = "append" // replace could duplicate the route in Linux
	}
	return "route " + verb + " " + route
}

func (r randomScript) neighbor() string {
	who := r.pick("10.1.0.2 dev lan", "10.1.0.3 dev lan", "10.2.0.2 dev wan", "20.0.0.1 dev lan", "20.0.128.2 dev wan", "20.1.0.3 dev lan", "20.1.0.3 dev wan",
		"fd01::2 dev lan", "fd02::2 dev wan", "fd20::1 dev lan", "fd20::1 dev wan", "fd20:100::3 dev lan")
	if r.IntN(3) == 0 {
		return "neigh del " + who
	}
	return fmt.Sprintf("neigh replace %s lladdr 02:00:00:00:00:%02x nud %s", who, r.IntN(256), r.pick("permanent", "noarp"))
}

func (r randomScript) nexthop() string {
	id := r.pick("1", "2", "3", "4", "6", "10", "11", "12")
	if r.IntN(4) == 0 {
		return "nexthop del id " + id
	}
	to := r.pick("via 10.1.0.2 dev lan", "via 10.2.0.2 dev wan", "via 10.3.0.2 dev oob", "dev lan", "blackhole")
	switch id {
	case "6":
		to = r.pick("via fd01::2 dev lan", "via fd02::2 dev wan")
	case "10", "11":
		to = "group " + r.pick("1/2", "2/3,4", "1,2/3", "3", "1/2/3")
	case "12":
		to = "group 6"
	}
	return "nexthop " + r.pick("add", "replace") + " id " + id + " " + to
}
