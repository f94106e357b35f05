package mirror

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"

	"github.com/warproute/warproute/internal/require"
)

// expectEvents checks the hooks' calls since the last check.
func (w *world) expectEvents(events ...string) {
	w.t.Helper()
	w.m.settle()
	w.note(func() {
		if !slices.Equal(w.events, events) {
			w.t.Errorf("hooks reported\n%s\nwant\n%s", strings.Join(w.events, "\n"), strings.Join(events, "\n"))
		}
		w.events = nil
	})
}

// tagOf returns a tag of 802.1Q.
func tagOf(vid uint16) fib.Tag { t, _ := fib.MakeTag(0x8100, vid); return t }

// carrier describes the frames of a port: "lan 802.1Q 5".
func carrier(f *fib.FIB, number uint16) string {
	c := f.VLANs.Carrier(number)
	if c.Tags() == 0 {
		return portLabel(int(number))
	}
	text := portLabel(int(c.Port()))
	for i := range c.Tags() {
		text += " " + c.Tag(i).String()
	}
	return text
}

const lan5 = "lan 802.1Q 5" // VLAN 5 of lan in outcomes

const vlan5 = "link add link lan name lan.5 address 02:00:00:00:00:05 type vlan id 5"

// A VLAN of a port is a port while it exists: routes over it forward.
func testVLANIsPortWhileItExists(t *testing.T) {
	w := newWorld(t)
	w.ip("link set lan address 02:00:00:00:00:aa")
	w.start()
	w.note(func() { w.events = nil })
	w.ip(vlan5, "link set lan.5 up", "addr add 10.5.0.1/24 dev lan.5", "route add 20.0.0.0/8 via 10.5.0.2",
		"neigh add 10.5.0.2 lladdr 02:00:00:00:00:52 nud permanent dev lan.5")
	w.expectEvents("port2 is lan.5, 802.1Q 5 on lan", "port2 02:00:00:00:00:05 mtu 1500 up false", "port2 02:00:00:00:00:05 mtu 1500 up true")
	w.want("20.0.0.1", lan5+" 02:00:00:00:00:52", "10.5.0.2", lan5+" 02:00:00:00:00:52", "10.5.0.9", lan5+" ?", "10.5.0.1", "local")
	if got := carrier(w.fib, 2); got != "lan 802.1Q 5" {
		t.Errorf("frames leave by %s", got)
	}
	if n, ok := w.fib.VLANs.Child(0, tagOf(5)); !ok || n != 2 {
		t.Errorf("tag 5 on lan is port %d, %v", n, ok)
	}
	w.sameAsFresh()

	w.ip("link set lan.5 down", "link set lan.5 name blue", "link set blue up", "route add 20.0.0.0/8 via 10.5.0.2")
	w.expectEvents("port2 02:00:00:00:00:05 mtu 1500 up false", "port2 is blue", "port2 02:00:00:00:00:05 mtu 1500 up true")
	w.ip("link set blue mtu 1400")
	w.expectEvents("port2 02:00:00:00:00:05 mtu 1400 up true")
	w.ip("link set blue address 02:00:00:00:00:06")
	w.expectEvents("port2 02:00:00:00:00:06 mtu 1400 up true")
	if p := w.fib.Port(2); p.MTU() != 1400 || p.MAC() != 0x020000000006 {
		t.Errorf("port 2 has %v, MTU %d", p.MAC(), p.MTU())
	}
	w.ip("link set blue down")
	w.expectEvents("port2 02:00:00:00:00:06 mtu 1400 up false")
	w.ip("link set blue up", "route add 20.0.0.0/8 via 10.5.0.2")
	w.expectEvents("port2 02:00:00:00:00:06 mtu 1400 up true")
	w.ip("link del blue")
	w.expectEvents("port2 02:00:00:00:00:06 mtu 1400 up false", "port2 deleted")
	w.want("20.0.0.1", "none", "10.5.0.2", "none")
	if _, ok := w.fib.VLANs.Child(0, tagOf(5)); ok || w.fib.VLANs.Carrier(2) != 0 {
		t.Error("frames of a deleted VLAN are received or sent")
	}
	w.sameAsFresh()

	// A VLAN with the same name and tag is another port: packets for the old one reach no neighbor of it.
	w.ip(vlan5, "link set lan.5 up", "addr add 10.5.0.1/24 dev lan.5", "route add 20.0.0.0/8 via 10.5.0.2")
	w.want("20.0.0.1", lan5+" ?")
	if n, ok := w.fib.VLANs.Child(0, tagOf(5)); !ok || n != 3 {
		t.Errorf("tag 5 on lan is port %d, %v, want 3", n, ok)
	}
	w.sameAsFresh()
}

// A VLAN follows the state of its parent.
func testVLANFollowsItsParent(t *testing.T) {
	w := newWorld(t)
	w.ip("link set lan address 02:00:00:00:00:aa", vlan5, "link set lan.5 up", "addr add 10.5.0.1/24 dev lan.5")
	w.start()
	w.note(func() { w.events = nil })
	w.want("10.5.0.9", lan5+" ?")
	w.ip("link set lan down")
	w.m.settle()
	if w.fib.Port(2).MTU() != 0 {
		t.Error("the VLAN of a port that is down is up")
	}
	w.ip("link set lan up")
	w.ip("link set lan.5 up", "addr replace 10.5.0.1/24 dev lan.5")
	w.wantSoon("10.5.0.9", lan5+" ?")
	w.ip("link set lan mtu 1300")
	if got := w.fib.Port(2).MTU(); got != 1300 {
		t.Errorf("the VLAN of a port with an MTU of 1300 has %d", got)
	}
	w.ip("link add red type vrf table 100", "link set red up", "link set lan master red")
	w.m.settle()
	w.want("10.5.0.9", "no port")
	w.ip("link set lan nomaster")
	w.wantSoon("10.5.0.9", lan5+" ?")
	w.ip("link set lan.5 master red")
	w.wantSoon("10.5.0.9", "none")
	w.ip("link set lan.5 nomaster")
	w.wantSoon("10.5.0.9", lan5+" ?")
	w.sameAsFresh()
	w.ip("link del lan") // Linux deletes the VLAN, too
	w.want("10.5.0.9", "none")
	if w.fib.VLANs.Used() != 0 {
		t.Errorf("%d logical ports are left", w.fib.VLANs.Used())
	}
	w.join("lan")
	w.ip("addr add 10.1.0.1/24 dev lan", vlan5, "link set lan.5 up", "addr add 10.5.0.1/24 dev lan.5")
	w.wantSoon("10.5.0.9", lan5+" ?")
	w.sameAsFresh()
}

// VLANs in VLANs have both tags. The outer VLAN is down: so is the inner one.
func testNestedVLANs(t *testing.T) {
	w := newWorld(t)
	w.ip("link add link wan name s7 type vlan proto 802.1ad id 7", "link add link s7 name c8 type vlan id 8", "link add link c8 name x9 type vlan id 9",
		"link set s7 up", "link set c8 up", "link set x9 up", "addr add 10.8.0.1/24 dev c8", "addr add 10.9.0.1/24 dev x9", "addr add 10.7.0.1/24 dev s7")
	w.start()
	w.wantSoon("10.8.0.9", "wan 802.1ad 7 802.1Q 8 ?")
	w.want("10.7.0.9", "wan 802.1ad 7 ?", "10.9.0.9", "no port") // three tags
	if n, ok := w.fib.VLANs.Child(2, tagOf(8)); !ok || n != 3 {
		t.Errorf("tag 8 in tag 7 is port %d, %v", n, ok)
	}
	w.sameAsFresh()
	w.ip("link set s7 down")
	if w.fib.Port(3).MTU() != 0 {
		t.Error("a VLAN in one that is down is up")
	}
	w.ip("link del s7")
	w.want("10.8.0.9", "none")
	w.sameAsFresh()
}

// A VLAN that moves to another namespace is no port, nor is one whose parent moves.
func testVLANMovesToAnotherNamespace(t *testing.T) {
	w := newWorld(t)
	w.ip(vlan5, "link set lan.5 up", "addr add 10.5.0.1/24 dev lan.5", "link add link wan name wan.6 type vlan id 6", "link set wan.6 up", "addr add 10.6.0.1/24 dev wan.6")
	w.start()
	w.want("10.5.0.9", lan5+" ?", "10.6.0.9", "wan 802.1Q 6 ?")
	other := newNamespace(t, "other")
	inside, err := other.Start(exec.Command("sleep", "60"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = inside.Stop(time.Second) })
	w.ip(fmt.Sprintf("link set lan.5 netns %d", inside.Pid()))
	w.want("10.5.0.9", "none")
	w.ip(fmt.Sprintf("link set wan netns %d", inside.Pid()))
	w.wantSoon("10.6.0.9", "none")
	if n := w.fib.VLANs.Used(); n != 0 {
		t.Errorf("%d logical ports are left", n)
	}
}

// After random changes of VLANs, each VLAN is a port with its own tag, and a fresh mirror agrees.
func testRandomVLANChanges(t *testing.T) {
	w := newWorld(t)
	w.start()
	rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 7))
	for range 1 {
		var lines []string
		for range 40 {
			id, parent := 1+rnd.IntN(6), []string{"lan", "wan", "v1", "v2"}[rnd.IntN(4)]
			name := fmt.Sprintf("v%d", id)
			lines = append(lines, []string{
				fmt.Sprintf("link add link %s name %s type vlan proto %s id %d", parent, name, []string{"802.1Q", "802.1ad"}[rnd.IntN(2)], 1+rnd.IntN(3)),
				"link set " + name + " up", "link set " + name + " up", "link set " + name + " down", "link del " + name,
				fmt.Sprintf("addr add 10.%d.0.1/24 dev %s", 10+id, name), fmt.Sprintf("addr add 10.%d.0.1/24 dev %s", 10+id, name),
				fmt.Sprintf("link set %s mtu %d", name, 1300+rnd.IntN(200)), "link set " + parent + " mtu 1500",
				fmt.Sprintf("link set %s name v%d", name, 1+rnd.IntN(6)),
			}[rnd.IntN(10)])
		}
		if _, err := w.batch(w.router, lines...); err != nil && !strings.Contains(err.Error(), "exit status") {
			t.Fatal(err)
		}
		w.m.settle()
		w.sameAsFresh()
		w.m.do(func() {
			for number, p := range w.m.logical {
				if c := w.fib.VLANs.Carrier(uint16(number)); c.Tags() == 0 || c.Tag(c.Tags()-1) != p.Tag || int(c.Port()) != p.Physical {
					t.Errorf("port %d: %v, carrier %s", number, p.LogicalPort, carrier(w.fib, uint16(number)))
				}
				if n, ok := w.fib.VLANs.Child(uint16(p.Parent), p.Tag); !ok || int(n) != number {
					t.Errorf("port %d: its tag is of port %d, %v", number, n, ok)
				}
				if l := w.m.links[p.Ifindex]; l == nil || l.port != number || l.VLANID != p.Tag.VID() {
					t.Errorf("port %d: link %v", number, l)
				}
			}
			if len(w.m.logical) != w.fib.VLANs.Used() {
				t.Errorf("%d ports, %d in the FIB", len(w.m.logical), w.fib.VLANs.Used())
			}
		})
	}
}

// The mirror of 4,094 VLANs with routes starts within seconds.
func TestManyVLANs(t *testing.T) {
	f := fib.New(1)
	var s state
	require.NoError(t, s.init(f, []Port{{Name: "lan", Ifindex: 1}, {Name: "wan", Ifindex: 100_000}}, Hooks{}, slog.New(slog.DiscardHandler)))
	const vlans, up = 4094, unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOWER_UP
	start := time.Now()
	s.setLink(&rtnl.Link{Index: 1, Name: "lan", Flags: up, Address: [6]byte{2}, MTU: 1500})
	for id := 1; id <= vlans; id++ {
		s.setLink(&rtnl.Link{Index: 1 + id, Name: fmt.Sprint("v", id), Flags: up, Address: [6]byte{2}, MTU: 1500, Parent: 1, Kind: "vlan", VLANID: uint16(id), VLANProtocol: 0x8100})
	}
	network := func(id int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(id >> 8), byte(id), 0}), 24)
	}
	for id := 1; id <= vlans; id++ {
		s.addRoute(&rtnl.Route{Family: unix.AF_INET, Type: unix.RTN_UNICAST, Table: unix.RT_TABLE_MAIN, Dst: network(id), Paths: []rtnl.Path{{Index: 1 + id, Weight: 1}}}, 0)
	}
	s.writeChanges()
	took := time.Since(start)
	t.Logf("%d VLANs with routes: %v", vlans, took)
	if took > 5*time.Second {
		t.Errorf("%v, want 5 s", took)
	}
	for id := 1; id <= vlans; id++ {
		n, ok := f.VLANs.Child(0, tagOf(uint16(id)))
		if got := outcome(f, network(id).Addr().Next()); !ok || got != fmt.Sprintf("lan 802.1Q %d ?", id) {
			t.Fatalf("VLAN %d is port %d, %v; its network is %q", id, n, ok, got)
		}
	}
	// All follow their parent, and end with it.
	s.setLink(&rtnl.Link{Index: 1, Name: "lan", Address: [6]byte{2}, MTU: 1500})
	if f.Port(2).MTU() != 0 || f.Port(1+vlans).MTU() != 0 {
		t.Error("VLANs of a port that is down are up")
	}
	s.deleteLink(1)
	s.writeChanges()
	if f.VLANs.Used() != 0 || len(s.logical) != 0 {
		t.Errorf("%d ports are left", f.VLANs.Used())
	}
}

// A VLAN of a port cannot be configured as a port, too.
func TestVLANOfPortIsNoConfiguredPort(t *testing.T) {
	for name, c := range map[string]struct {
		ports []Port
		ok    bool
	}{"parent and VLAN": {[]Port{{Name: "lan", Ifindex: 1}, {Name: "lan.5", Ifindex: 2}}, false}, "VLAN alone": {[]Port{{Name: "lan.5", Ifindex: 2}}, true}} {
		var s state
		require.NoError(t, s.init(fib.New(1), c.ports, Hooks{}, slog.New(slog.DiscardHandler)))
		s.setLink(&rtnl.Link{Index: 1, Name: "lan", Address: [6]byte{2}, MTU: 1500})
		s.setLink(&rtnl.Link{Index: 2, Name: "lan.5", Address: [6]byte{2}, MTU: 1500, Parent: 1, Kind: "vlan", VLANID: 5, VLANProtocol: 0x8100})
		err := s.checkPorts()
		if c.ok != (err == nil) || err != nil && !strings.Contains(err.Error(), "remove lan.5 from the ports") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
