package mirror

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
)

// linuxOutcome returns what Linux does with a packet that an interface receives: the interface by which it leaves, or
// the action.
func (w *world) linuxOutcome(ip, in string) string {
	w.t.Helper()
	source := "10.1.0.9"
	if strings.Contains(ip, ":") {
		source = "fd01::9"
	}
	out, err := w.router.Run("ip", "route", "get", ip, "from", source, "iif", in)
	text := out
	if err != nil {
		text = err.Error()
	}
	for _, c := range []struct{ has, outcome string }{
		{"local " + ip, "local"}, {"Network is unreachable", "none"}, {"No route to host", "unreachable"}, {"Permission denied", "prohibit"},
		{"Invalid argument", "blackhole"}, {"error -101", "none"}, {"error -113", "unreachable"}, {"error -13", "prohibit"}, {"error -22", "blackhole"},
	} {
		if strings.Contains(text, c.has) {
			return c.outcome
		}
	}
	if _, rest, ok := strings.Cut(out, " dev "); ok {
		dev, _, _ := strings.Cut(rest, " ")
		return dev
	}
	return text
}

// sameFrom compares what the router does with packets of the port lan with Linux.
func (w *world) sameFrom(addresses ...string) {
	w.t.Helper()
	w.same(func() (differences []string) {
		for _, ip := range addresses {
			got, _, _ := strings.Cut(outcomeFrom(w.fib, lan, netip.MustParseAddr(ip)), " ") // without the neighbor
			if want := w.linuxOutcome(ip, "lan"); got != want {
				differences = append(differences, fmt.Sprintf("packets from lan to %s: %q, Linux: %q", ip, got, want))
			}
		}
		return append(differences, w.verify()...)
	})
}

// rule6 runs an `ip -6` command: those for rules do not infer the family.
func (w *world) rule6(line string) {
	w.t.Helper()
	_, err := w.router.Run("ip", append([]string{"-6"}, strings.Fields(line)...)...)
	require.NoError(w.t, err)
	w.m.settle()
}

func newRulesWorld(t *testing.T) *world {
	w := newVRFWorld(t)
	for _, setting := range []string{"net.ipv4.ip_forward 1", "net.ipv6.conf.all.forwarding 1", "net.ipv4.conf.all.rp_filter 0", "net.ipv4.conf.lan.rp_filter 0", "net.ipv4.conf.default.rp_filter 0"} {
		name, value, _ := strings.Cut(setting, " ")
		require.NoError(t, w.router.Sysctl(name, value))
	}
	return w
}

// A rule by ingress interface has packets of this port looked up in its table, and then in main.
func TestRulesByIngressInterface(t *testing.T) {
	w := newRulesWorld(t)
	w.ip("route add 20.0.0.0/8 via 10.2.0.2", "route add 20.1.0.0/16 via 10.2.0.3", "route add fd20::/16 via fd02::2", "route add blackhole 30.0.0.0/8")
	w.start()
	all := []string{"20.0.0.1", "20.1.0.1", "20.2.0.1", "30.0.0.1", "40.0.0.1", "10.1.0.1", "10.2.0.9", "10.1.0.9", "fd20::1", "fd30::1", "fd01::1", "fd02::9"}
	w.sameFrom(all...)
	w.ip("route add 20.0.0.0/9 via 10.1.0.2 table 10", "route add prohibit 20.2.0.0/16 table 10", "route add 40.0.0.0/8 via 10.1.0.2 table 10", "rule add iif lan lookup 10 pref 100")
	w.wantFrom(lan, "20.0.0.1", "lan ?", "20.1.0.1", "lan ?", "20.2.0.1", "prohibit", "20.200.0.1", "wan ?", "30.0.0.1", "blackhole", "10.1.0.1", "local", "fd20::1", "wan ?")
	w.wantFrom(wan, "20.0.0.1", "wan ?", "20.1.0.1", "wan ?", "20.2.0.1", "wan ?", "40.0.0.1", "none")
	w.sameFrom(all...)
	if info, ok := w.m.LookupFrom(lan, netip.MustParseAddr("20.1.0.1")); !ok || info.Table != "10" {
		t.Errorf("route of a packet from lan: %v", info)
	}
	if info, ok := w.m.LookupFrom(lan, netip.MustParseAddr("20.200.0.1")); !ok || info.Table != "main" {
		t.Errorf("route of a packet from lan by main: %v", info)
	}
	w.ip("route add throw 20.1.0.0/16 table 10", "route add default via 10.1.0.2 table 10", "route add unreachable fd20::/16 table 20")
	w.rule6("rule add iif lan lookup 20 pref 100")
	w.wantFrom(lan, "20.1.0.1", "wan ?", "30.0.0.1", "lan ?", "10.2.0.9", "lan ?", "10.1.0.1", "local", "fd20::1", "unreachable", "fd30::1", "none")
	w.sameFrom(all...)
	w.ip("route del 20.1.0.0/16", "route del throw 20.1.0.0/16 table 10", "route add throw 20.1.0.0/16 table 10", "neigh add 10.2.0.9 lladdr 02:00:00:00:00:29 nud permanent dev wan")
	w.wantFrom(lan, "20.1.0.1", "wan ?", "10.2.0.9", "lan ?")
	w.sameFrom(all...)
	w.ip("rule del iif lan lookup 10 pref 100")
	w.wantFrom(lan, "20.0.0.1", "wan ?", "40.0.0.1", "none", "10.2.0.9", "wan 02:00:00:00:00:29", "fd20::1", "unreachable")
	w.sameFrom(all[:3]...)
	w.rule6("rule del iif lan lookup 20 pref 100")
	w.sameFrom(all[:3]...)
	w.m.do(func() {
		if len(w.m.vrfs)+len(w.m.combined)+len(w.m.rules) != 0 {
			t.Errorf("tables without rules are kept: %v %v %v", w.m.vrfs, w.m.combined, w.m.rules)
		}
	})
}

// Packets of a port whose rules cannot be followed are dropped, and a message names the rule.
func TestPortWithUnsupportedRuleIsClosed(t *testing.T) {
	for _, c := range []struct{ rules, reason string }{
		{"rule add iif lan from 10.1.0.0/24 lookup 10 pref 100", "priority 100 has other conditions"},
		{"rule add iif lan blackhole pref 100", "priority 100 has other conditions"},
		{"rule add iif lan lookup 10 pref 40000", "priority 40000 is behind"},
		{"rule add iif lan lookup local pref 100", "priority 100 is to table 255"},
		{"rule add iif lan lookup 10 pref 100\nrule add iif lan lookup 20 pref 101", "two of a family, to tables 10 and 20"},
	} {
		w := newRulesWorld(t)
		w.ip("route add 20.0.0.0/8 via 10.2.0.2")
		w.start()
		lines := strings.Split(c.rules, "\n")
		w.ip(lines...)
		w.wantFrom(lan, "20.0.0.1", "no table", "10.1.0.1", "no table")
		w.wantFrom(wan, "20.0.0.1", "wan ?")
		if text := strings.Join(w.m.Status().Warnings, "\n"); !strings.Contains(text, c.reason) || !strings.Contains(text, "ingress interface lan") {
			t.Errorf("%s: warnings: %q", c.rules, text)
		}
		for i := range lines {
			lines[i] = strings.Replace(lines[i], "add", "del", 1)
		}
		w.ip(lines...)
		w.wantFrom(lan, "20.0.0.1", "wan ?")
	}
	w := newRulesWorld(t).start()
	w.ip("rule add iif lo lookup 10", "rule add iif oob lookup 10", "rule add not iif lan lookup 10")
	if text := strings.Join(w.m.Status().Warnings, "\n"); strings.Count(text, "rule") != 2 { // "policy rules are not supported: rule"
		t.Errorf("rules of other interfaces: warnings: %q", text)
	}
	w.ip("rule add iif lan lookup 10 pref 100")
	w.m.SetRPF(lan, fib.RPF{IPv4: fib.RPFStrict})
	w.wantFrom(lan, "10.2.0.9", "no table")
	w.m.SetRPF(lan, fib.RPF{})
	w.m.settle()
	w.wantFrom(lan, "10.2.0.9", "wan ?")
}

// After random changes of rules and routes, packets take the same ways as in Linux.
func TestRandomRulesByIngressInterface(t *testing.T) {
	w := newRulesWorld(t).start()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := randomScript{rand.New(rand.NewPCG(seed, 10))}
	var rules [2]string // by family: no or one rule
	prefix4 := func() string {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{20, byte(r.IntN(4)), byte(r.IntN(4)), 0}), 8+r.IntN(17)).Masked().String()
	}
	prefix6 := func() string {
		return netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 0x20, byte(r.IntN(4)), byte(r.IntN(4))}), 16+r.IntN(17)).Masked().String()
	}
	for range 6 {
		var lines, addresses []string
		for range 30 {
			verb, table := r.pick("add", "add", "del"), " table "+r.pick("10", "20", "main", "main")
			switch n := r.IntN(100); {
			case n < 40:
				lines = append(lines, "route "+verb+" "+prefix4()+" via "+r.pick("10.1.0.2", "10.2.0.2")+table)
			case n < 50:
				lines = append(lines, "route "+verb+" "+r.pick("prohibit ", "unreachable ", "throw ", "throw ")+prefix4()+table)
			case n < 75:
				lines = append(lines, "route "+verb+" "+prefix6()+" via "+r.pick("fd01::2", "fd02::2")+table)
			case n < 80:
				lines = append(lines, "route "+verb+" "+r.pick("prohibit ", "unreachable ", "throw ")+prefix6()+table)
			case n < 84:
				lines = append(lines, "neigh replace 10.2.0."+r.pick("7", "8", "9")+" lladdr 02:00:00:00:00:0"+r.pick("1", "2")+" nud permanent dev wan")
			case n < 87:
				lines = append(lines, "route "+verb+" 10.2.0."+r.pick("0/24", "8/29", "9/32")+" via 10.1.0.2 table "+r.pick("10", "20"))
			case n < 90:
				lines = append(lines, "link set wan "+r.pick("up", "down"))
			}
		}
		family := r.IntN(2)
		change := func(verb string) {
			if rules[family] != "" {
				_, err := w.router.Run("ip", append([]string{[2]string{"-4", "-6"}[family], "rule", verb}, strings.Fields(rules[family])...)...)
				require.NoError(t, err)
			}
		}
		change("del")
		rules[family] = r.pick("", "iif lan lookup 10 pref 100", "iif lan lookup 20 pref 100", "iif lan lookup 20 pref 200")
		change("add")
		if _, err := w.batch(w.router, append(lines, "link set wan up")...); err != nil && !strings.Contains(err.Error(), "exit status") {
			t.Fatal(err)
		}
		for range 12 {
			addresses = append(addresses, fmt.Sprintf("20.%d.%d.1", r.IntN(4), r.IntN(4)), fmt.Sprintf("fd20:%02x%02x::1", r.IntN(4), r.IntN(4)))
		}
		w.sameFrom(append(addresses, "10.2.0.7", "10.2.0.9", "10.1.0.1", "10.2.0.1", "fd02::1", "fd02::9", "20.200.0.1")...)
		if t.Failed() {
			t.Fatal(strings.Join(lines, "\n"))
		}
	}
}

// Rules that a resync does not have any longer are forgotten, and ports keep their table meanwhile.
func TestRulesAreComparedWithADump(t *testing.T) {
	s := newVRFState(t)
	rule := rtnl.Rule{Family: unix.AF_INET, Priority: 100, Table: 10, Ingress: "lan", Plain: true}
	s.setRule(&rule, false)
	if got := outcomeFrom(s.fib, 0, netip.MustParseAddr("20.0.0.1")); got != "no table" || !s.suspects.tables {
		t.Errorf("before the table is read: %q", got)
	}
	s.tablesRead()
	vrf := s.fib.PortVRF(0)
	s.dumpSeq++
	s.setRule(&rule, false)
	s.sweepRules()
	if s.fib.PortVRF(0) != vrf || vrf == 0 {
		t.Errorf("table %d after a resync, want %d", s.fib.PortVRF(0), vrf)
	}
	s.dumpSeq++
	s.sweepRules()
	if got := s.fib.PortVRF(0); got != 0 || len(s.vrfs)+len(s.combined) != 0 {
		t.Errorf("table %d without the rule", got)
	}
}

// A rule whose table has no default route takes as much memory as table main, and a change costs as much as in main.
func TestRuleBesideALargeTable(t *testing.T) {
	s := newVRFState(t)
	const routes = 100_000
	add := func(i int) {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(20 + i>>16), byte(i >> 8), byte(i), 0}), 24)
		s.addRoute(&rtnl.Route{Family: unix.AF_INET, Type: unix.RTN_UNICAST, Table: unix.RT_TABLE_MAIN, Dst: p, Paths: []rtnl.Path{{Index: 2, Weight: 1}}}, unix.NLM_F_MULTI)
	}
	for i := range routes {
		add(i)
	}
	s.writeChanges()
	before, start := s.fib.IPv4.Bytes(), time.Now()
	s.setRule(&rtnl.Rule{Family: unix.AF_INET, Priority: 100, Table: 10, Ingress: "lan", Plain: true}, false)
	s.tablesRead()
	s.writeChanges()
	t.Logf("a rule beside %d routes: %v, %d MiB", routes, time.Since(start), (s.fib.IPv4.Bytes()-before)>>20)
	if n := s.fib.IPv4.VRF(int(s.fib.PortVRF(0))).Len(); n != routes {
		t.Errorf("%d routes", n)
	}
	s.addRoute(&rtnl.Route{Family: unix.AF_INET, Type: unix.RTN_BLACKHOLE, Table: 10, Dst: netip.MustParsePrefix("20.0.0.0/8")}, unix.NLM_F_CREATE)
	add(routes)
	s.writeChanges()
	if n := s.fib.IPv4.VRF(int(s.fib.PortVRF(0))).Len(); n != routes-1<<16+2 {
		t.Errorf("%d routes beside one that covers 65,536", n)
	}
	checkState(t, s)
}
