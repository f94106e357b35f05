package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/internal/require"
)

func TestParsePorts(t *testing.T) {
	for text, want := range map[string]string{
		`ports: auto`:                        "auto/auto",
		`ports: [auto, "!eth0"]`:             "auto/auto !eth0",
		`ports: ["eth*", "lan?", wan0]`:      "eth* lan? wan0",
		`ports: [{interface: auto}]`:         "auto", // an interface of this name
		`ports: [{interface: "eth[0-3]"}]`:   "eth[0-3]",
		"ports:\n  - eth*\n  - interface: b": "eth* b",
	} {
		c, err := Parse("f", []byte(text+"\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got []string
		for _, p := range c.Ports {
			s := p.Interface
			if p.Auto {
				s += "/auto"
			}
			got = append(got, s)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestParseRefusesPatterns(t *testing.T) {
	for text, want := range map[string]string{
		`ports: all`:          `f:1:8: ports must be a list, not the string "all"; begin each entry with ` + "`- `, or write auto",
		`ports: ["eth["]`:     `f:1:9: "eth[" is not a valid pattern of interface names; write a pattern such as "eth*", "lan?" or "eth[0-3]", or an exclusion such as "!eth0"`,
		`ports: ["!"]`:        `f:1:8: ports has only exclusions; add a name or a pattern, such as "*"`,
		`ports: ["a*", "!"]`:  `f:1:15: "!" matches no valid interface name`,
		`ports: ["a/*"]`:      `matches no valid interface name`,
		`ports: ["a*", "a*"]`: `interface "a*" is already a port`,
		`ports: ["` + strings.Repeat("a", 70) + `*"]`: `matches no valid interface name`,
		"ports: auto\nmax_ports: 1025":                "f:2:12: max_ports: 1025 is out of range",
	} {
		_, err := Parse("f", []byte(text+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v\nwant %s", text, err, want)
		}
	}
}

// named returns a configuration with n names of ports.
func named(n int) []byte {
	text := []byte("ports:\n")
	for i := range n {
		text = fmt.Appendf(text, "- p%d\n", i)
	}
	return text
}

func TestNoMoreThanTheMostPortsAtTheStart(t *testing.T) {
	want := "ports names 1025 interfaces; name at most 1024, the most ports of a router"
	if _, err := Parse("f", named(MaxPorts+1)); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v\nwant %s", err, want)
	}
	if _, err := Parse("f", named(MaxPorts)); err != nil {
		t.Error(err)
	}
	c, err := Parse("f", append(named(MaxPorts-10), "- veth*\n"...))
	require.NoError(t, err)
	var many []netdev.Device
	for i := range 3000 {
		many = append(many, netdev.Device{Index: i + 1, Name: fmt.Sprintf("veth%d", i), Kind: "veth", Up: true, Ethernet: true})
	}
	for n, want := range map[int]int{0: MaxPorts - 10, 4: MaxPorts - 6, 3000: MaxPorts} {
		if got := len(c.AtStart(many[:n])); got != want || c.Room(got) > MaxPorts {
			t.Errorf("%d interfaces match: %d ports at the start, room for %d; want %d and %d", n, got, c.Room(got), want, MaxPorts)
		}
	}
}

var devices = []netdev.Device{
	{Index: 1, Name: "lo", Kind: "device", Up: true, Loopback: true, Ethernet: true},
	{Index: 2, Name: "eth0", Kind: "device", Up: true, Ethernet: true},
	{Index: 3, Name: "eth1", Kind: "device", Ethernet: true},
	{Index: 4, Name: "br0", Kind: "bridge", Up: true, Ethernet: true},
	{Index: 5, Name: "eth2", Kind: "device", Up: true, Ethernet: true, Master: 4, MemberOf: "bridge"},
	{Index: 6, Name: "eth0.7", Kind: "vlan", Up: true, Ethernet: true, Lower: 2},
	{Index: 7, Name: "veth0", Kind: "veth", Up: true, Ethernet: true},
	{Index: 8, Name: "dummy0", Kind: "dummy", Up: true, Ethernet: true},
	{Index: 9, Name: "warproute0", Kind: "tuntap", Up: true},
	{Index: 10, Name: "bond0", Kind: "bond", Up: true, Ethernet: true},
	{Index: 11, Name: "eth3", Kind: "device", Up: true, Ethernet: true, Master: 99},
	{Index: 12, Name: "mv0", Kind: "macvlan", Up: true, Ethernet: true, Lower: 2},
	{Index: 13, Name: "tap0", Kind: "tuntap", Up: true, Ethernet: true},
}

func TestSelect(t *testing.T) {
	for text, want := range map[string]string{
		`ports: auto`:                              "eth0 veth0 tap0",
		`ports: [auto, "!eth*"]`:                   "veth0 tap0",
		`ports: ["*"]`:                             "eth0 veth0 dummy0 tap0",
		`ports: ["eth*"]`:                          "eth0",
		`ports: ["eth?", eth1]`:                    "eth0 eth1", // a name, also of one that is down
		`ports: ["*", "!*0"]`:                      "",
		`ports: [eth0, "!eth0"]`:                   "eth0",
		`ports: [eth2, br0]`:                       "br0 eth2",
		`ports: [auto, {interface: dummy0}]`:       "eth0 veth0 dummy0 tap0",
		`ports: ["[dv]*", "!veth*"]`:               "dummy0",
		`ports: [{interface: "*", mode: generic}]`: "eth0/generic veth0/generic dummy0/generic tap0/generic",
		`ports: [{interface: "e*", mode: native}, {interface: "*", mode: generic}]`: "eth0/native veth0/generic dummy0/generic tap0/generic",
	} {
		c, err := Parse("f", []byte(text+"\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got []string
		for _, s := range c.Select(devices) {
			if s.Reason == "" {
				t.Errorf("%s: no reason for %s", text, s.Interface)
			}
			if !s.Taken {
				continue
			}
			if s.Port.Interface != s.Interface || s.Port.Pattern() || !s.Matched {
				t.Errorf("%s: %+v", text, s)
			}
			name := s.Interface
			if s.Port.Mode != ModeAuto {
				name += "/" + string(s.Port.Mode)
			}
			got = append(got, name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestSelectGivesReasons(t *testing.T) {
	c, err := Parse("f", []byte(`ports: [auto, "!veth*", eth1]`+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	c.Ports[2].Interface = "named0"
	var got []string
	for _, s := range c.Select(devices) {
		got = append(got, fmt.Sprintf("%s: %s", s.Interface, s.Reason))
	}
	want := []string{
		"lo: loopback", "eth0: matches auto", "eth1: down: taken when it is set up", "br0: a bridge", "eth2: member of bridge br0",
		"eth0.7: a VLAN, which is a port if its parent is one", `veth0: excluded by "!veth*"`,
		"dummy0: auto does not take interfaces of kind dummy: write its name or a pattern", "warproute0: not Ethernet: it has no MAC address", "bond0: a bond",
		"eth3: member of another interface", "mv0: a macvlan of another interface", "tap0: matches auto",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
