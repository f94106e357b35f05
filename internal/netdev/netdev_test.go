package netdev

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// snapshot is the devices of a network namespace, by index.
type snapshot map[int]*Device

func (s snapshot) device(index int) *Device { return s[index] }

func (s snapshot) members(master *Device) (members []*Device) {
	for _, index := range slices.Sorted(maps.Keys(s)) {
		if s[index].Master == master.Index {
			members = append(members, s[index])
		}
	}
	return members
}

// devices returns a host's devices: VLANs, bonds, teams, bridges, macvlans, a vrf, and a loop of
// VLANs.
func devices() snapshot {
	all := snapshot{}
	for _, d := range []Device{
		{Index: 1, Name: "eth0", Kind: "device", Driver: "ice", Master: 3, MemberOf: "bond"},
		{Index: 2, Name: "eth1", Kind: "device", Driver: "ice", Master: 3, MemberOf: "bond"},
		{Index: 3, Name: "bond0", Kind: "bond", Driver: "bonding", Mode: "802.3ad"},
		{Index: 4, Name: "bond0.7", Kind: "vlan", Driver: "802.1Q VLAN Support", Lower: 3},
		{Index: 5, Name: "veth0", Kind: "veth", Driver: "veth", Lower: 1},
		{Index: 6, Name: "veth0.7", Kind: "vlan", Lower: 5},
		{Index: 7, Name: "qinq", Kind: "vlan", Lower: 6},
		{Index: 8, Name: "mac0", Kind: "macvlan", Lower: 9},
		{Index: 9, Name: "eth2", Kind: "device", Driver: "mlx5_core"},
		{Index: 10, Name: "eth2.7", Kind: "vlan", Lower: 9},
		{Index: 11, Name: "away", Kind: "vlan", Lower: 1, Foreign: true},
		{Index: 12, Name: "br0", Kind: "bridge", Driver: "bridge"},
		{Index: 13, Name: "tap0", Kind: "tuntap", Driver: "tun", Master: 12, MemberOf: "bridge"},
		{Index: 14, Name: "red", Kind: "vrf"},
		{Index: 15, Name: "eth3", Kind: "device", Driver: "igb", Master: 14, MemberOf: "vrf"},
		{Index: 16, Name: "team0", Kind: "team", Driver: "team"},
		{Index: 17, Name: "eth4", Kind: "device", Driver: "igb", Master: 16, MemberOf: "team"},
		{Index: 18, Name: "loop.1", Kind: "vlan", Lower: 19},
		{Index: 19, Name: "loop.2", Kind: "vlan", Lower: 18},
	} {
		all[d.Index] = &d
	}
	return all
}

func TestLayersEndAtHardware(t *testing.T) {
	all := devices()
	for _, c := range []struct {
		index int
		want  string // names
		soft  string
	}{
		{1, "eth0", ""},
		{4, "bond0 bond0.7 eth0 eth1", ""},
		{5, "veth0", "veth0"}, // its peer is not below it
		{7, "qinq veth0 veth0.7", "veth0"},
		{8, "eth2 mac0", "mac0"},
		{10, "eth2 eth2.7", ""},
		{11, "away", "away"},
		{12, "br0 tap0", "br0"},
		{14, "red", ""},
		{16, "eth4 team0", ""},
		{18, "loop.1 loop.2", ""},
	} {
		layers := below(all, all[c.index])
		var names []string
		for _, d := range layers {
			names = append(names, d.Name)
		}
		if names[0] != all[c.index].Name {
			t.Errorf("%s: the first is %s", all[c.index].Name, names[0])
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s is made of %s, want %s", all[c.index].Name, got, c.want)
		}
		if d, ok := UnfinishedChecksums(layers); ok != (c.soft != "") || d.Name != c.soft {
			t.Errorf("%s: checksums are left unfinished at %q, want %q", all[c.index].Name, d.Name, c.soft)
		}
	}
}

func TestCheckPortRefusesAggregatesAndMembers(t *testing.T) {
	all := devices()
	for index, want := range map[int][2]string{
		1:  {"eth0 is a member of bond bond0", "use bond0 as the port instead"},
		3:  {},
		4:  {},
		13: {},
		15: {},
		16: {"team0 is a team", "a VLAN interface on team0"},
		17: {"eth4 is a member of team team0", "ip link set eth4 nomaster"},
	} {
		switch r := refuse(all[index], all); {
		case r == nil && want[0] != "":
			t.Errorf("%s can be a port, want %q", all[index].Name, want[0])
		case r != nil && (want[0] == "" || !strings.Contains(r.Reason, want[0]) || !strings.Contains(r.Hint, want[1])):
			t.Errorf("%s: %v, want %q", all[index].Name, r, want)
		}
	}
}

// Only bonds that have members, no master, and one member for each flow are ports.
func TestCheckPortOfBonds(t *testing.T) {
	for want, change := range map[string]func(bond *Device, all snapshot){
		"":                    func(*Device, snapshot) {},
		"mode balance-rr":     func(b *Device, _ snapshot) { b.Mode = "balance-rr" },
		"mode broadcast":      func(b *Device, _ snapshot) { b.Mode = "broadcast" },
		"mode balance-alb":    func(b *Device, _ snapshot) { b.Mode = "balance-alb" },
		"without members":     func(_ *Device, all snapshot) { delete(all, 1); delete(all, 2) },
		"a bond in bridge br": func(b *Device, all snapshot) { b.Master, b.MemberOf = 12, "bridge" },
	} {
		all := devices()
		change(all[3], all)
		r := refuse(all[3], all)
		if (r != nil) != (want != "") || r != nil && !strings.Contains(r.Reason, want) {
			t.Errorf("%v, want %q", r, want)
		}
		if later := want == "without members"; r != nil && r.Later != later {
			t.Errorf("%v: may change while the host boots: %v", r, r.Later)
		}
		delete(all, 1)
		delete(all, 2)
		if r := refuse(all[3], all); all[3].Master == 0 && (r == nil || !r.Later) {
			t.Errorf("%v without members: %v may not change while the host boots", want, r)
		}
	}
}

func TestCarrierReset(t *testing.T) {
	for _, c := range []struct {
		before, now Carrier
		want        bool
	}{
		{Carrier{true, 3}, Carrier{true, 3}, false}, {Carrier{true, 3}, Carrier{false, 4}, true},
		{Carrier{true, 3}, Carrier{true, 5}, true}, {Carrier{false, 3}, Carrier{true, 4}, false},
	} {
		if got := c.before.Reset(c.now); got != c.want {
			t.Errorf("%v, then %v: reset %v", c.before, c.now, got)
		}
	}
}

func TestParseAckReturnsTheMessage(t *testing.T) {
	request := append([]byte{20, 0, 0, 0}, make([]byte, 16)...)
	message := append([]byte{8, 0, nlmsgErrAttrMsg, 0}, "why\x00"...)
	refused := []byte{0xea, 0xff, 0xff, 0xff} // -EINVAL
	join := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
	const tlvs, capped = 0x200, 0x100
	for _, c := range []struct {
		name  string
		data  []byte
		flags uint16
		want  string
	}{
		{"whole request", join(refused, request, message), tlvs, "why"},
		{"header alone", join(refused, request[:16], message), tlvs | capped, "why"},
		{"another attribute before", join(refused, request, []byte{8, 0, 2, 0, 1, 0, 0, 0}, message), tlvs, "why"},
		{"none", join(refused, request), 0, ""},
		{"cut short", join(refused, request, message[:6]), tlvs, ""},
		{"a request longer than the message", join(refused, []byte{255, 255, 0, 0}, make([]byte, 12)), tlvs, ""},
	} {
		if errno, got, err := parseAck(c.data, c.flags); errno != 22 || got != c.want || err != nil {
			t.Errorf("%s: error %d, %q, %v", c.name, errno, got, err)
		}
	}
	if _, _, err := parseAck(refused, tlvs); err == nil {
		t.Error("an acknowledgement of 4 bytes was taken")
	}
}
