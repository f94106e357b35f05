package mirror

import (
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
)

// bonded is a state with port lan (link 1) and bond0 (link 5) of the ports a, b and c (links 2 to 4).
type bonded struct {
	*state
	t      *testing.T
	bond   rtnl.Link
	member [3]rtnl.Link
	calls  []string
}

const upFlags = unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOWER_UP

func newBonded(t *testing.T, mode uint8) *bonded {
	b := &bonded{state: new(state), t: t}
	hooks := Hooks{
		PortAdded: func(p LogicalPort) {
			b.calls = append(b.calls, fmt.Sprintf("%d is %s on %d %v", p.Number, p.Name, p.Parent, p.Members))
		},
		PortChanged: func(port int, _ [6]byte, mtu int, up bool) {
			if port >= 4 {
				b.calls = append(b.calls, fmt.Sprintf("%d mtu %d up %v", port, mtu, up))
			}
		},
		PortRenamed:    func(port int, name string) { b.calls = append(b.calls, fmt.Sprintf("%d is %s", port, name)) },
		PortDeleted:    func(port int) { b.calls = append(b.calls, fmt.Sprintf("%d deleted", port)) },
		PortGone:       func(port int) { b.calls = append(b.calls, fmt.Sprintf("%d gone", port)) },
		MembersChanged: func(bond int, members []Member) { b.calls = append(b.calls, fmt.Sprint(bond, membersText(members))) },
	}
	ports := []Port{{Name: "lan", Ifindex: 1}, {Name: "a", Ifindex: 2, Bond: "bond0"}, {Name: "b", Ifindex: 3, Bond: "bond0"}, {Name: "c", Ifindex: 4, Bond: "bond0"}}
	require.NoError(t, b.init(fib.New(1), ports, hooks, slog.New(slog.DiscardHandler)))
	b.setLink(&rtnl.Link{Index: 1, Name: "lan", Flags: upFlags, Address: [6]byte{2, 5: 1}, MTU: 1500})
	for i := range b.member {
		b.member[i] = rtnl.Link{Index: 2 + i, Name: string(rune('a' + i)), Flags: upFlags, Address: [6]byte{2, 5: 5}, MTU: 1500, Master: 5, SlaveOf: "bond"}
	}
	b.bond = rtnl.Link{Index: 5, Name: "bond0", Flags: upFlags, Address: [6]byte{2, 5: 5}, MTU: 1500, Kind: "bond", Bond: rtnl.Bond{Mode: mode}}
	return b
}

// membersText describes members: per port r for one that receives, t for one that transmits, - for neither, x for
// none of the bond.
func membersText(members []Member) (text string) {
	for _, m := range members {
		text += fmt.Sprintf(" %d", m.Port)
		switch {
		case !m.Enslaved:
			text += "x"
		case !m.Receives && !m.Transmits:
			text += "-"
		}
		if m.Receives {
			text += "r"
		}
		if m.Transmits {
			text += "t"
		}
	}
	return text
}

// set applies the links of the members and the bond.
func (b *bonded) set() {
	for i := range b.member {
		l := b.member[i]
		b.setLink(&l)
	}
	l := b.bond
	b.setLink(&l)
	b.writeChanges()
}

// want checks the calls of hooks since the last check, and the shares of the FIB: buckets by physical port.
func (b *bonded) want(share map[uint16]int, calls ...string) {
	b.t.Helper()
	if !slices.Equal(b.calls, calls) {
		b.t.Errorf("hooks\n%s\nwant\n%s", strings.Join(b.calls, "\n"), strings.Join(calls, "\n"))
	}
	b.calls = nil
	have := map[uint16]int{}
	if number := b.bonds[0].number; number != 0 {
		if m := b.fib.Bonds.Members(uint16(number)); m != nil {
			for i := range uint32(fib.Buckets) {
				have[m.Port(i<<24)]++
			}
		}
		for _, port := range b.bonds[0].ports {
			if got := b.fib.Bonds.Master(uint16(port)); got != uint16(number) {
				b.t.Errorf("frames of port %d are of port %d, want the bond, %d", port, got, number)
			}
		}
	}
	if !maps.Equal(have, share) {
		b.t.Errorf("buckets by port: %v, want %v", have, share)
	}
	checkState(b.t, b.state)
}

// A bond is a port with the routes of its link. In active-backup, one member has all flows, and the others receive
// nothing.
func TestActiveBackupBond(t *testing.T) {
	b := newBonded(t, rtnl.BondActiveBackup)
	b.member[1].Member.Backup, b.member[2].Member.Backup, b.bond.Bond.Active = true, true, 2
	b.set()
	b.want(map[uint16]int{1: 256}, "4 is bond0 on -1 [1 2 3]", "4 mtu 1500 up true", "4 1rt 2- 3-")
	require.NoError(t, b.checkPorts())
	gateway := netip.MustParseAddr("10.0.0.1")
	b.setNeighbor(&rtnl.Neighbor{Family: unix.AF_INET, Index: 5, Addr: gateway, State: unix.NUD_PERMANENT, Address: [6]byte{2, 0, 0, 0, 1, 2}}, false)
	b.addRoute(&rtnl.Route{Family: unix.AF_INET, Type: unix.RTN_UNICAST, Table: unix.RT_TABLE_MAIN, Dst: netip.MustParsePrefix("20.0.0.0/8"),
		Paths: []rtnl.Path{{Index: 5, Gateway: gateway, Weight: 1}}}, unix.NLM_F_CREATE)
	b.writeChanges()
	route := func(want string) {
		t.Helper()
		if got := outcome(b.fib, netip.MustParseAddr("20.0.0.1")); got != want {
			t.Errorf("packets by the bond: %q, want %q", got, want)
		}
	}
	route("port4 02:00:00:00:01:02")
	if p := b.fib.Port(4); p.MTU() != 1500 || p.MAC() != 0x020000000005 {
		t.Errorf("the bond has %v, MTU %d", p.MAC(), p.MTU())
	}

	// The active member loses its carrier: before Linux changes it, no member transmits.
	b.member[0].Flags = unix.IFF_UP
	b.set()
	b.want(nil, "4 1r 2- 3-")
	b.member[0].Member, b.member[1].Member = rtnl.BondMember{Backup: true, Failed: true}, rtnl.BondMember{}
	b.setLink(&b.member[0])
	b.setLink(&b.member[1])
	b.want(map[uint16]int{2: 256}, "4 1- 2- 3-", "4 1- 2rt 3-") // by the members' messages, before the bond's
	b.bond.Bond.Active = 3
	b.set()
	b.want(map[uint16]int{2: 256})
	// Between the messages about two members, both seem active: one of them transmits.
	b.member[2].Member.Backup = false
	b.setLink(&b.member[2])
	b.want(map[uint16]int{2: 256}, "4 1- 2rt 3r")
	b.bond.Bond.Active = 4
	b.set()
	b.want(map[uint16]int{3: 256}, "4 1- 2r 3rt")
	b.bond.Bond.AllActive = true
	b.set()
	b.want(map[uint16]int{3: 256}, "4 1r 2r 3rt")
	b.bond.Bond.AllActive, b.member[1].Member.Backup = false, true
	b.set()
	b.calls = nil
	route("port4 02:00:00:00:01:02")

	// No member is left, and the bond is down.
	b.member[2].Flags, b.member[2].Member = unix.IFF_UP, rtnl.BondMember{Backup: true, Failed: true}
	b.bond.Flags, b.bond.Bond.Active = unix.IFF_UP, 0
	b.set()
	b.want(nil, "4 1- 2- 3-", "4 mtu 1500 up false")
	if b.fib.Port(4).MTU() != 0 {
		t.Error("the bond is up in the FIB")
	}
}

// In balance-xor, the members that are up share the flows. A flow moves only if its member fails or returns.
func TestBalancedBond(t *testing.T) {
	b := newBonded(t, rtnl.BondXOR)
	b.set()
	b.want(map[uint16]int{1: 86, 2: 85, 3: 85}, "4 is bond0 on -1 [1 2 3]", "4 mtu 1500 up true", "4 1rt 2rt 3rt")
	before := buckets(b.fib.Bonds.Members(4))
	for name, fail := range map[string]func(*rtnl.Link){
		"carrier": func(l *rtnl.Link) { l.Flags = unix.IFF_UP }, "monitor": func(l *rtnl.Link) { l.Member.Failed = true }, "set down": func(l *rtnl.Link) { l.Flags = 0 },
	} {
		was := b.member[1]
		fail(&b.member[1])
		b.set()
		b.want(map[uint16]int{1: 129, 3: 127}, "4 1rt 2r 3rt")
		for i, port := range buckets(b.fib.Bonds.Members(4)) {
			if before[i] != 2 && port != before[i] {
				t.Errorf("%s: a flow of port %d moves to %d", name, before[i], port)
			}
		}
		b.member[1] = was
		b.set()
		b.want(map[uint16]int{1: 86, 2: 85, 3: 85}, "4 1rt 2rt 3rt")
		if buckets(b.fib.Bonds.Members(4)) != before {
			t.Errorf("%s: flows do not return with their member", name)
		}
	}
}

func buckets(m *fib.Members) (all [fib.Buckets]uint16) {
	for i := range all {
		all[i] = m.Port(uint32(i) << 24)
	}
	return all
}

// In 802.3ad, the members of the active aggregator that Linux has enabled share the flows.
func TestAggregatingBond(t *testing.T) {
	b := newBonded(t, rtnl.Bond8023AD)
	b.bond.Bond.Aggregator = 1
	for i := range b.member {
		b.member[i].Member.Aggregator = 1
	}
	b.member[2].Member = rtnl.BondMember{Backup: true, Aggregator: 3} // its partner is another system
	b.set()
	b.want(map[uint16]int{1: 129, 2: 127}, "4 is bond0 on -1 [1 2 3]", "4 mtu 1500 up true", "4 1rt 2rt 3-")
	b.member[1].Member.Backup = true // LACP has not agreed
	b.set()
	b.want(map[uint16]int{1: 256}, "4 1rt 2- 3-")
	// Another aggregator becomes active. Linux reports its members before the bond, and the bond maybe later.
	b.member[0].Member.Backup, b.member[2].Member.Backup = true, false
	b.setLink(&b.member[0])
	b.setLink(&b.member[2])
	b.want(map[uint16]int{3: 256}, "4 1- 2- 3-", "4 1- 2- 3rt")
	b.bond.Bond.Aggregator = 3
	b.set()
	b.want(map[uint16]int{3: 256})
	b.member[0].Member.Backup = false // enabled, but not in the active aggregator
	b.set()
	b.want(map[uint16]int{3: 256}, "4 1r 2- 3rt")
}

// Members leave and join at run time.
func TestReleasedAndEnslavedMembers(t *testing.T) {
	b := newBonded(t, rtnl.BondXOR)
	b.set()
	b.calls = nil
	b.member[0].Master, b.member[0].SlaveOf = 0, ""
	b.set()
	b.want(map[uint16]int{2: 128, 3: 128}, "4 1x 2rt 3rt")
	if n := b.portNumber(2); n != -1 {
		t.Errorf("the link of a released member is port %d", n)
	}
	b.member[0].Master, b.member[0].SlaveOf = 9, "bond" // of another bond
	b.set()
	b.want(map[uint16]int{2: 128, 3: 128})
	b.member[0].Master = 5
	b.set()
	b.want(map[uint16]int{1: 86, 2: 85, 3: 85}, "4 1rt 2rt 3rt")
	b.deleteLink(3)
	b.writeChanges()
	b.want(map[uint16]int{1: 128, 3: 128}, "4 1rt 2x 3rt", "2 gone")
	b.member[1].Index = 7 // comes back, joins the bond
	b.setLink(&b.member[1])
	b.writeChanges()
	b.want(map[uint16]int{1: 86, 2: 85, 3: 85}, "4 1rt 2rt 3rt")
	if b.ports[2].Ifindex != 7 || len(b.warnings) != 0 {
		t.Errorf("port b has link %d; warnings %q", b.ports[2].Ifindex, b.warnings)
	}
}

// VLANs on a bond, and in VLANs on it, are ports of the bond, and follow it. A bond that is deleted and created again
// is another port.
func TestVLANsOnBond(t *testing.T) {
	b := newBonded(t, rtnl.BondXOR)
	vlan := func(index, parent int, id uint16) *rtnl.Link {
		return &rtnl.Link{Index: index, Name: fmt.Sprint("v", index), Flags: upFlags, Address: [6]byte{2, 5: 5}, MTU: 1500, Parent: parent, Kind: "vlan", VLANID: id, VLANProtocol: 0x8100}
	}
	b.setLink(vlan(6, 5, 7)) // before the bond, as in some dumps
	b.set()
	b.setLink(vlan(7, 6, 8))
	b.setLink(vlan(8, 7, 9)) // three tags
	b.writeChanges()
	b.want(map[uint16]int{1: 86, 2: 85, 3: 85}, "4 is bond0 on -1 [1 2 3]", "4 mtu 1500 up true", "4 1rt 2rt 3rt", "5 is v6 on 4 [1 2 3]", "5 mtu 1500 up true",
		"6 is v7 on 5 [1 2 3]", "6 mtu 1500 up true")
	if got := carrier(b.fib, 6); got != "port4 802.1Q 7 802.1Q 8" {
		t.Errorf("frames of the inner VLAN leave by %s", got)
	}
	if n, ok := b.fib.VLANs.Child(4, tagOf(7)); !ok || n != 5 || !b.fib.VLANs.Tagged(4) {
		t.Errorf("tag 7 on the bond is port %d, %v", n, ok)
	}
	b.bond.Flags, b.bond.MTU = unix.IFF_UP, 1400
	b.set()
	b.want(map[uint16]int{1: 86, 2: 85, 3: 85}, "4 mtu 1400 up false", "5 mtu 1400 up false", "6 mtu 1400 up false")
	b.bond.Flags, b.bond.Name = upFlags, "uplink"
	b.set()
	b.want(map[uint16]int{1: 86, 2: 85, 3: 85}, "4 is uplink", "4 mtu 1400 up true", "5 mtu 1400 up true", "6 mtu 1400 up true")
	b.setLink(&rtnl.Link{Index: 10, Name: "bond0", Flags: upFlags, Address: [6]byte{2, 5: 9}, MTU: 1500, Kind: "bond", Bond: rtnl.Bond{Mode: rtnl.BondXOR}})
	b.want(map[uint16]int{1: 86, 2: 85, 3: 85}) // there is one already
	b.deleteLink(10)

	b.deleteLink(5)
	b.writeChanges()
	b.want(nil, "4 deleted", "5 deleted", "6 deleted")
	if b.fib.VLANs.Used() != 0 || b.fib.Bonds.Master(1) != 0 {
		t.Errorf("%d logical ports are left, port 1 has bond %d", b.fib.VLANs.Used(), b.fib.Bonds.Master(1))
	}
	b.deleteLink(6)
	b.deleteLink(7)
	b.deleteLink(8)
	b.bond.Index, b.bond.Name = 11, "bond0"
	for i := range b.member {
		b.member[i].Master = 11
	}
	b.set()
	b.want(map[uint16]int{1: 86, 2: 85, 3: 85}, "7 is bond0 on -1 [1 2 3]", "7 mtu 1400 up true", "7 1rt 2rt 3rt")
}

// A bond that cannot be a port is refused at the start, and is none later.
// A member that joins a running bond receives and transmits for it and its VLANs, and one that is removed does not.
func TestMembersJoinBond(t *testing.T) {
	b := newBonded(t, rtnl.BondXOR)
	b.set()
	b.setLink(&rtnl.Link{Index: 6, Name: "bond0.9", Flags: upFlags, Address: [6]byte{2, 5: 5}, MTU: 1500, Kind: "vlan", Parent: 5, VLANProtocol: 0x8100, VLANID: 9})
	b.calls = nil
	number := b.bonds[0].number
	members := func(want ...int) {
		t.Helper()
		for _, p := range b.logical {
			if !slices.Equal(p.Members, want) {
				t.Errorf("%s is carried by %v, want %v", p.Name, p.Members, want)
			}
		}
	}
	b.removePort(3)
	b.want(map[uint16]int{1: 128, 2: 128}, fmt.Sprintf("%d 1rt 2rt", number))
	members(1, 2)
	if b.fib.Bonds.Master(3) != uint16(number) {
		t.Error("frames that the removed member has received are not those of the bond")
	}
	b.setLink(&rtnl.Link{Index: 7, Name: "d", Flags: upFlags, Address: [6]byte{2, 5: 5}, MTU: 1500, Master: 5, SlaveOf: "bond"})
	b.want(map[uint16]int{1: 128, 2: 128}) // not a port yet
	b.openPort(3, Port{Name: "d", Ifindex: 7, Bond: "bond0"}, b.links[7])
	b.want(map[uint16]int{1: 86, 2: 85, 3: 85}, fmt.Sprintf("%d 1rt 2rt 3rt", number))
	members(1, 2, 3)
	b.setLink(&rtnl.Link{Index: 7, Name: "d", Flags: upFlags, Address: [6]byte{2, 5: 5}, MTU: 1500})
	b.want(map[uint16]int{1: 128, 2: 128}, fmt.Sprintf("%d 1rt 2rt 3x", number))
	b.removePort(3)
	b.want(map[uint16]int{1: 128, 2: 128}, fmt.Sprintf("%d 1rt 2rt", number))
	b.openPort(3, Port{Name: "d", Ifindex: 7}, b.links[7])
	if master := b.fib.Bonds.Master(3); master != 0 || b.links[7].port != 3 {
		t.Errorf("frames of the port are those of %d, and the link is port %d", master, b.links[7].port)
	}
	members(1, 2)
}

func TestUnusableBonds(t *testing.T) {
	for want, change := range map[string]func(*bonded){
		"port bond0: member of VRF red":               func(b *bonded) { b.bond.Master, b.bond.SlaveOf = 9, "vrf" },
		"port bond0: member of bridge red":            func(b *bonded) { b.bond.Master, b.bond.SlaveOf = 9, "bridge" },
		"port bond0: not a bond in mode active":       func(b *bonded) { b.bond.Bond.Mode = 0 },
		"port bond0: the bond does not exist":         func(b *bonded) { b.bond.Name = "other" },
		`port 2: link "b" with index 3 does not exis`: func(b *bonded) { b.member[1].Index = 33; b.member[1].Name = "e" },
	} {
		b := newBonded(t, rtnl.BondXOR)
		b.setLink(&rtnl.Link{Index: 9, Name: "red"})
		was := b.bond
		change(b)
		b.set()
		if err := b.checkPorts(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if was == b.bond || want == "port bond0: the bond does not exist" {
			continue
		}
		now := b.bond
		b.bond = was
		b.set()
		b.want(map[uint16]int{1: 86, 2: 85, 3: 85}, "4 is bond0 on -1 [1 2 3]", "4 mtu 1500 up true", "4 1rt 2rt 3rt")
		b.bond = now
		b.set()
		b.want(nil, "4 deleted")
	}
}
