package mirror

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/race"
	"github.com/warproute/warproute/internal/require"
)

func newVRFWorld(t *testing.T) *world {
	w := newWorld(t)
	w.vrfs = true
	return w
}

// wantFrom checks the outcome of packets that a port receives.
func (w *world) wantFrom(port int, addrsAndOutcomes ...string) {
	w.t.Helper()
	for i := 0; i < len(addrsAndOutcomes); i += 2 {
		if got := outcomeFrom(w.fib, uint16(port), netip.MustParseAddr(addrsAndOutcomes[i])); got != addrsAndOutcomes[i+1] {
			w.t.Errorf("packets from %s to %s: %q, want %q", portLabel(port), addrsAndOutcomes[i], got, addrsAndOutcomes[i+1])
		}
	}
}

const lan, wan = 0, 1

// A port in a VRF stays a port, and its packets have the routes of the VRF alone. Local addresses are Linux's.
func testPortUsesTableOfItsVRF(t *testing.T) {
	w := newVRFWorld(t)
	w.ip("link add red type vrf table 10", "link set red up", "route add 30.0.0.0/8 via 10.2.0.2", "route add default via 10.2.0.2")
	w.start()
	w.note(func() { w.events = nil })
	w.ip("link set lan master red")
	w.ip("route add 20.0.0.0/8 via 10.1.0.2 table 10", "neigh add 10.1.0.2 lladdr 02:00:00:00:00:12 nud permanent dev lan", "addr add fd01::1/64 dev lan nodad")
	w.ip("route add fd20::/16 via fd01::2 table 10")
	w.wantFrom(lan, "20.0.0.1", "lan 02:00:00:00:00:12", "10.1.0.2", "lan 02:00:00:00:00:12", "10.1.0.9", "lan ?", "10.1.0.1", "local",
		"30.0.0.1", "none", "10.2.0.9", "none", "fd20::1", "lan ?", "fd02::9", "none", "fd01::1", "local")
	w.wantFrom(wan, "20.0.0.1", "wan ?", "30.0.0.1", "wan ?", "10.1.0.9", "wan ?", "fd20::1", "none", "fd01::1", "none")
	w.note(func() {
		if n := w.locals[netip.MustParseAddr("10.1.0.1")]; n != 1 {
			t.Errorf("the address in the VRF was added %d times", n)
		}
	})
	if info, _, ok, err := w.m.LookupInVRF("red", netip.MustParseAddr("20.0.0.1")); err != nil || !ok || info.Table != "10" || info.VRF != "red" || !strings.Contains(info.String(), "20.0.0.0/8 via 10.1.0.2 dev lan table 10") {
		t.Errorf("%v %v: %v", ok, err, info)
	}
	if _, _, _, err := w.m.LookupInVRF("blue", netip.MustParseAddr("20.0.0.1")); err == nil || err.Error() != `VRF "blue": the router has red` {
		t.Errorf("unknown VRF: %v", err)
	}
	if got := w.m.Status().VRFs; len(got) != 1 || got[0].Name != "red" || got[0].Ports != 1 || !got[0].Complete || got[0].RoutesIPv4 < 4 {
		t.Errorf("status: %+v", got)
	}
	w.sameAsFresh()
	w.ip("link set lan nomaster")
	w.wantFrom(lan, "20.0.0.1", "wan ?", "10.1.0.9", "lan ?")
	w.sameAsFresh()
	w.ip("link set lan master red", "link del red")
	w.wantFrom(lan, "20.0.0.1", "wan ?", "10.1.0.1", "local")
	w.sameAsFresh()
	w.m.do(func() {
		if len(w.m.vrfs) != 0 {
			t.Error("the table of a deleted VRF is kept")
		}
	})
}

// Routes of a VRF lead to ports of other VRFs and of none, and the reverse, to their neighbors, too.
func testRoutesLeakBetweenVRFs(t *testing.T) {
	w := newVRFWorld(t).start()
	w.ip("link add red type vrf table 10", "link add blue type vrf table 20", "link set red up", "link set blue up", "link set lan master red", "link set wan master blue")
	w.ip("neigh add 10.2.0.7 lladdr 02:00:00:00:00:27 nud permanent dev wan", "neigh add 10.1.0.7 lladdr 02:00:00:00:00:17 nud permanent dev lan",
		"route add 40.0.0.0/8 via 10.2.0.7 dev wan onlink table 10", "route add 10.2.0.0/24 dev wan table 10", "route add 50.0.0.0/8 via 10.1.0.7 dev lan onlink table 20",
		"route add 60.0.0.0/8 via 10.1.0.7 dev lan onlink", "route add unreachable default table 10 metric 4278198272")
	w.wantFrom(lan, "40.0.0.1", "wan 02:00:00:00:00:27", "10.2.0.7", "wan 02:00:00:00:00:27", "10.2.0.8", "wan ?", "50.0.0.1", "unreachable", "60.0.0.1", "unreachable")
	w.wantFrom(wan, "50.0.0.1", "lan 02:00:00:00:00:17", "40.0.0.1", "none", "10.1.0.7", "none")
	w.want("60.0.0.1", "lan 02:00:00:00:00:17", "40.0.0.1", "none")
	w.sameAsFresh()
	w.ip("link set wan nomaster")
	w.wantFrom(wan, "60.0.0.1", "lan 02:00:00:00:00:17", "50.0.0.1", "none")
	w.sameAsFresh()
}

// Linux deletes the local addresses of a link that enters or leaves a VRF, without an event while the link is down.
func testLinkThatIsDownEntersVRF(t *testing.T) {
	w := newVRFWorld(t).start()
	w.ip("link add red type vrf table 10", "link set red up", "link set lan down")
	w.want("10.1.0.1", "local")
	w.ip("link set lan master red")
	w.want("10.1.0.1", "none")
	w.wantFrom(lan, "10.1.0.1", "none")
	w.sameAsFresh()
	w.ip("link set lan up", "link set lan down")
	w.wantFrom(lan, "10.1.0.1", "local")
	w.ip("link set lan nomaster")
	w.want("10.1.0.1", "none")
	w.sameAsFresh()
	w.ip("link set lan up")
	w.want("10.1.0.1", "local", "10.1.0.9", "lan ?")
	w.sameAsFresh()
}

// A VRF that is created again with other links and tables has the routes that its table has meanwhile.
func testVRFIsCreatedAgain(t *testing.T) {
	w := newVRFWorld(t).start()
	w.ip("link add red type vrf table 10", "link set red up", "link set lan master red", "route add blackhole 70.0.0.0/8 table 10", "route add prohibit 70.0.0.0/8 table 20")
	w.wantFrom(lan, "70.0.0.1", "blackhole")
	w.ip("link del red", "link add red type vrf table 20", "link set red up", "link set lan master red")
	w.wantFrom(lan, "70.0.0.1", "prohibit", "10.1.0.9", "lan ?")
	w.ip("link add other type vrf table 20", "link set other up", "link set lan master other", "link del red") // one table of two VRFs
	w.wantFrom(lan, "70.0.0.1", "prohibit")
	w.ip("link del other", "link add red type vrf table 10", "link set red up", "link set lan master red")
	w.wantFrom(lan, "70.0.0.1", "blackhole")
	w.sameAsFresh()
}

// A VRF with table main is refused by name: packets of its ports are dropped.
func testTablesOfTheRouterAreNoVRFs(t *testing.T) {
	w := newVRFWorld(t)
	w.ip("link add odd type vrf table 254", "link set odd up", "link set lan master odd", "route add 20.0.0.0/8 via 10.2.0.2")
	w.start()
	w.wantFrom(lan, "20.0.0.1", "no table", "10.2.0.9", "no table", "fd02::9", "no table")
	w.wantFrom(wan, "20.0.0.1", "wan ?")
	if warnings := w.m.Status().Warnings; !slices.ContainsFunc(warnings, func(s string) bool { return strings.Contains(s, "VRF odd has table 254, which is not its own") }) {
		t.Errorf("warnings: %q", warnings)
	}
}

// A VLAN is in a VRF of its own: that of its parent is not the VLAN's.
func testVLANInVRF(t *testing.T) {
	w := newVRFWorld(t).start()
	w.ip("link add red type vrf table 10", "link set red up", "link add link lan name lan.5 type vlan id 5", "link set lan.5 up", "addr add 10.5.0.1/24 dev lan.5",
		"link set lan.5 master red", "route add 20.0.0.0/8 via 10.5.0.2 table 10")
	w.wantFrom(2, "20.0.0.1", lan5+" ?", "10.1.0.9", "none")
	w.wantFrom(lan, "20.0.0.1", "none", "10.1.0.9", "lan ?")
	w.ip("link set lan.5 nomaster", "link set lan master red")
	w.wantFrom(2, "10.5.0.9", lan5+" ?", "10.1.0.9", "none")
	w.wantFrom(lan, "10.5.0.9", "none", "10.1.0.9", "lan ?")
	w.ip("link set lan.5 master red")
	w.sameAsFresh()
	w.ip("link del lan.5")
	w.wantFrom(2, "20.0.0.1", "no table", "10.1.0.9", "no table") // frames that are on their way
	w.sameAsFresh()
}

// vrfLine returns a random command about VRFs, or of a random script in any table.
func (r randomScript) vrfLine() string {
	name := r.pick("red", "blue", "green")
	switch n := r.IntN(100); {
	case n < 12:
		return "link add " + name + " type vrf table " + r.pick("10", "20", "30")
	case n < 18:
		return "link del " + name
	case n < 32:
		return "link set " + r.pick("lan", "wan", "lan.5", "oob") + " master " + name
	case n < 38:
		return "link set " + r.pick("lan", "wan", "lan.5") + " nomaster"
	case n < 44:
		return "link set " + name + " up"
	case n < 48:
		return r.pick("link add link lan name lan.5 type vlan id 5", "link set lan.5 up", "addr add 10.5.0.1/24 dev lan.5", "link del lan.5")
	case n < 58:
		return "route " + r.pick("add", "del") + " " + r.prefix4() + " via " + r.pick("10.1.0.2 dev lan", "10.2.0.3 dev wan", "10.5.0.2 dev lan.5") + " onlink table " + r.pick("10", "20", "30")
	}
	line := r.line()
	if strings.HasPrefix(line, "route ") && r.IntN(2) == 0 {
		line += " table " + r.pick("10", "20", "30")
	}
	return line
}

// After random changes of VRFs, their ports and routes, the mirror has the tables of Linux, and each port the right one.
func testRandomVRFChanges(t *testing.T) {
	w := newVRFWorld(t).start()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := randomScript{rand.New(rand.NewPCG(seed, 9))}
	for range 12 {
		var lines []string
		for range 60 {
			lines = append(lines, r.vrfLine())
		}
		if _, err := w.batch(w.router, lines...); err != nil && !strings.Contains(err.Error(), "exit status") {
			t.Fatal(err)
		}
		w.sameAsFresh()
		if t.Failed() {
			t.Fatal(strings.Join(lines, "\n"))
		}
	}
}

// newVRFState is newState with VRFs.
func newVRFState(t testing.TB) *state {
	s := new(state)
	require.NoError(t, s.init(fib.New(1), []Port{{Name: "lan", Ifindex: 1}, {Name: "wan", Ifindex: 2}}, Hooks{VRFs: true}, slog.New(slog.DiscardHandler)))
	for i := range 3 {
		s.setTestLink(i+1, true)
	}
	return s
}

// Packets of a port whose VRF is unknown, or whose table is not read so far, are dropped as no_table, never by another
// table.
func TestPortIsClosedUntilItsTableIsRead(t *testing.T) {
	s := newVRFState(t)
	to := netip.MustParseAddr("20.0.0.1")
	s.addRoute(&rtnl.Route{Family: unix.AF_INET, Type: unix.RTN_BLACKHOLE, Table: unix.RT_TABLE_MAIN, Dst: netip.MustParsePrefix("20.0.0.0/8")}, unix.NLM_F_CREATE)
	s.writeChanges()
	expect := func(when, want string) {
		t.Helper()
		s.writeChanges()
		if got := outcomeFrom(s.fib, 0, to); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
		checkState(t, s)
	}
	expect("main", "blackhole")
	l := s.links[1].Link
	l.Master, l.SlaveOf = 9, "vrf"
	s.setLink(&l)
	expect("unknown VRF", "no table")
	red := rtnl.Link{Index: 9, Name: "red", Kind: "vrf", VRFTable: 10}
	s.setLink(&red)
	expect("table not read", "no table")
	if !s.suspects.tables {
		t.Error("the table is not requested")
	}
	s.addRoute(&rtnl.Route{Family: unix.AF_INET, Type: unix.RTN_PROHIBIT, Table: 10, Dst: netip.MustParsePrefix("20.0.0.0/8")}, unix.NLM_F_CREATE)
	expect("table being read", "no table")
	s.tablesRead()
	expect("table read", "prohibit")
	red.VRFTable = 20
	s.setLink(&red)
	expect("another table", "no table")
	s.tablesRead()
	expect("empty table", "none")
	s.deleteLink(9)
	expect("VRF deleted before the port is released", "no table")
	l.Master, l.SlaveOf = 0, ""
	s.setLink(&l)
	expect("released", "blackhole")
	checkNothingLeft(t, s)
}

// 256 VRFs with 1,000 IPv4 routes each start within seconds, and report their memory.
func TestManyVRFs(t *testing.T) {
	s := newVRFState(t)
	const vrfs, routes = 256, 1000
	start := time.Now()
	for v := range vrfs {
		s.setLink(&rtnl.Link{Index: 100 + v, Name: fmt.Sprint("red", v), Kind: "vrf", VRFTable: uint32(1000 + v)})
	}
	for v := range vrfs {
		for i := range routes {
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(10 + i%4), byte(i >> 4), byte(i), 0}), 24)
			s.addRoute(&rtnl.Route{Family: unix.AF_INET, Type: unix.RTN_UNICAST, Table: uint32(1000 + v), Dst: p, Paths: []rtnl.Path{{Index: 2, Weight: 1}}}, unix.NLM_F_MULTI)
		}
	}
	s.writeChanges()
	s.tablesRead()
	took := time.Since(start)
	t.Logf("%d VRFs with %d routes: %v, %d MiB", vrfs, routes, took, s.fib.IPv4.Bytes()>>20)
	if took > 5*time.Second && !race.Enabled {
		t.Errorf("%v, want 5 s", took)
	}
	if n := s.fib.IPv4.VRF(2).Len(); n != routes {
		t.Errorf("%d routes", n)
	}
}

// Without room for another VRF, the packets of its ports are dropped, and a message names it.
func TestTooManyVRFs(t *testing.T) {
	s := newVRFState(t)
	for v := range fib.MaxVRFs {
		s.setLink(&rtnl.Link{Index: 100 + v, Name: fmt.Sprint("red", v), Kind: "vrf", VRFTable: uint32(1000 + v)})
	}
	s.tablesRead()
	l := s.links[1].Link
	l.Master, l.SlaveOf = 100+fib.MaxVRFs-1, "vrf"
	s.setLink(&l)
	s.writeChanges()
	if got := outcomeFrom(s.fib, 0, netip.MustParseAddr("20.0.0.1")); got != "no table" {
		t.Errorf("one VRF too many: %q", got)
	}
	if !slices.ContainsFunc(s.warnings, func(text string) bool { return strings.Contains(text, "red998") }) {
		t.Errorf("warnings: %q", s.warnings)
	}
}

// The rule of VRFs and a local rule behind it are those of Linux. Others are named.
func TestRulesOfVRFs(t *testing.T) {
	s := newVRFState(t)
	s.setRule(&rtnl.Rule{Family: unix.AF_INET, Priority: 1000, VRFs: true}, false)
	s.setRule(&rtnl.Rule{Family: unix.AF_INET, Priority: 32765, Table: unix.RT_TABLE_LOCAL, Plain: true}, false)
	if len(s.warnings) != 0 {
		t.Errorf("warnings: %q", s.warnings)
	}
	s.setRule(&rtnl.Rule{Family: unix.AF_INET, Priority: 100, Table: 10}, false) // ip rule add iif lan lookup 10
	s.setRule(&rtnl.Rule{Family: unix.AF_INET, Priority: 1000, VRFs: true}, true)
	if text := strings.Join(s.warnings, "\n"); !strings.Contains(text, "rule with priority 100 (table 10) ignored") || !strings.Contains(text, "ip rule add l3mdev pref 1000") {
		t.Errorf("warnings: %q", s.warnings)
	}
}

// Packets of a VRF do not exit by Linux, which would look them up in table main.
func TestRoutesOfVRFsDoNotExitByLinux(t *testing.T) {
	s := newVRFState(t)
	s.hooks.Exits = true
	s.setForwarding(&rtnl.Netconf{Family: unix.AF_INET, Index: 3, Forwarding: true, HasForwarding: true})
	s.setLink(&rtnl.Link{Index: 9, Name: "red", Kind: "vrf", VRFTable: 10})
	for _, table := range []uint32{unix.RT_TABLE_MAIN, 10} {
		s.addRoute(&rtnl.Route{Family: unix.AF_INET, Type: unix.RTN_UNICAST, Table: table, Dst: netip.MustParsePrefix("20.0.0.0/8"), Paths: []rtnl.Path{{Index: 3, Weight: 1}}}, unix.NLM_F_CREATE)
	}
	s.writeChanges()
	for table, want := range map[*table]string{s.main: ToLinux, s.vrfs[10]: "no port"} {
		if info, ok := s.lookupIn(table, netip.MustParseAddr("20.0.0.1")); !ok || info.Kind != want {
			t.Errorf("table %d: %v, want %q", table.id, info, want)
		}
	}
}
