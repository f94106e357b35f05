package service

import (
	"errors"
	"fmt"
	"testing"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/internal/require"
)

// vlansOn returns devices of ports with n VLANs on the last one, each with a lower index, as after a move to this namespace.
func vlansOn(n int, ports ...string) (devices []netdev.Device) {
	for i := range n {
		devices = append(devices, netdev.Device{Index: 10 + i, Name: fmt.Sprint("v", i), Kind: "vlan", Lower: 5000 + len(ports)})
	}
	for i, name := range ports {
		devices = append(devices, netdev.Device{Index: 5001 + i, Name: name})
	}
	return append(devices, netdev.Device{Index: 9000, Name: "other"}, netdev.Device{Index: 9001, Name: "v", Kind: "vlan", Lower: 9000},
		netdev.Device{Index: 9002, Name: "remote", Kind: "vlan", Lower: 5001, Foreign: true})
}

// All VLANs get numbers, and so do physical ports that the configuration announces.
func TestVLANsAndLaterPortsGetNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		config  string
		start   []string
		atStart int // VLANs
		vlans   int // that get numbers
		later   int // physical ports that get numbers after the VLANs
	}{
		"one port":                        {"ports: [{interface: a}]", []string{"a"}, 4094, 4094, 1},
		"two ports":                       {"ports: [{interface: a}, {interface: b}]", []string{"a", "b"}, 4094, 4094, 0},
		"few VLANs":                       {"ports: [{interface: a}, {interface: b}]", []string{"a", "b"}, 3, 4062, 32},
		"VLANs after the start":           {"ports: [{interface: a}, {interface: b}]\nmax_ports: 2", []string{"a", "b"}, 0, 4094, 0},
		"room for one more":               {"ports: [{interface: a}]\nmax_ports: 2", []string{"a"}, 4094, 4094, 1},
		"room for ten more":               {"ports: [{interface: a}]\nmax_ports: 11", []string{"a"}, 4094, 4085, 10},
		"patterns":                        {"ports: auto", []string{"a"}, 4094, 4087, 8},
		"patterns, and the most ports":    {"ports: auto\nmax_ports: 1", []string{"a"}, 3, 4063, 32},
		"members of a bond can come back": {"ports: [{interface: a}, {interface: b, bond: c}]\nmax_ports: 2", []string{"a", "b"}, 3, 4062, 32},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := config.Parse("f", []byte(c.config+"\n"))
			if name == "members of a bond can come back" { // bond is of config.WithMembers
				cfg, err = config.Parse("f", []byte("ports: [{interface: a}]\nmax_ports: 2\n"))
				cfg.Ports = append(cfg.Ports, config.Port{Interface: "b", Bond: "c"})
			}
			require.NoError(t, err)
			s := &Service{cfg: cfg, fib: fib.New(1)}
			var ports []config.Port
			for _, name := range c.start {
				ports = append(ports, config.Port{Interface: name})
			}
			logical := countLogical(ports, vlansOn(c.atStart, c.start...))
			if logical != c.atStart {
				t.Fatalf("%d VLANs are counted, want %d", logical, c.atStart)
			}
			s.setRoom(len(c.start), logical)
			s.fib.VLANs.SetPhysical(len(s.ports.configured))
			used := map[int]bool{}
			for i := range c.start {
				used[i] = true
			}
			for i := range 4094 {
				number, err := s.fib.VLANs.Take()
				if i >= c.vlans {
					if !errors.Is(err, fib.ErrFull) {
						t.Fatalf("VLAN %d gets number %d, %v", i+1, number, err)
					}
					break
				}
				if err != nil || used[int(number)] {
					t.Fatalf("VLAN %d gets number %d, %v", i+1, number, err)
				}
				used[int(number)] = true
			}
			for i := range c.later + 1 {
				number, err := s.ports.numbers.Take()
				if i == c.later {
					if !errors.Is(err, fib.ErrFull) {
						t.Fatalf("later port %d gets number %d, %v", i+1, number, err)
					}
					break
				}
				if err != nil || used[number] || number >= len(s.ports.configured) {
					t.Fatalf("later port %d gets number %d, %v", i+1, number, err)
				}
				used[number] = true
			}
		})
	}
}

// Bonds and VLANs on them and on VLANs are counted.
func TestLogicalPortsAreCounted(t *testing.T) {
	ports := []config.Port{{Interface: "a", Bond: "bond0"}, {Interface: "b", Bond: "bond0"}, {Interface: "c"}}
	devices := []netdev.Device{
		{Index: 2, Name: "inner", Kind: "vlan", Lower: 7}, {Index: 3, Name: "a"}, {Index: 4, Name: "b"}, {Index: 5, Name: "c"},
		{Index: 6, Name: "bond0", Kind: "bond"}, {Index: 7, Name: "outer", Kind: "vlan", Lower: 6}, {Index: 8, Name: "m", Kind: "macvlan", Lower: 5},
	}
	if n := countLogical(ports, devices); n != 3 {
		t.Errorf("%d logical ports, want bond0, outer and inner", n)
	}
}
