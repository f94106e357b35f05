package config

import (
	"errors"
	"slices"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// Members replace a bond with its settings, and a comparison names the bond.
func TestMembersReplaceBonds(t *testing.T) {
	members := func(name string) ([]string, error) {
		if name == "bond0" {
			return []string{"eth1", "eth2"}, nil
		}
		return nil, nil
	}
	file := Default("eth0", "bond0")
	file.Ports[1].Mode, file.Ports[1].ReversePath = ModeNative, ReversePathStrict
	running := *file
	var err error
	running.Ports, err = WithMembers(file.Ports, members)
	require.NoError(t, err)
	want := []Port{file.Ports[0], {Interface: "eth1", Mode: ModeNative, ReversePath: ReversePathStrict, Bond: "bond0"}, {Interface: "eth2", Mode: ModeNative, ReversePath: ReversePathStrict, Bond: "bond0"}}
	if !slices.Equal(running.Ports, want) {
		t.Errorf("ports %+v, want %+v", running.Ports, want)
	}
	if names := running.Interfaces(); !slices.Equal(names, []string{"eth0", "bond0"}) {
		t.Errorf("interfaces %v", names)
	}
	if d := Diff(&running, file); len(d) != 0 {
		t.Errorf("the same configuration differs: %v", d)
	}
	other := Default("eth0", "bond0")
	other.Ports, _ = WithMembers(other.Ports, members)
	if d := Diff(&running, other); len(d) != 1 || d[0].String() != "~ ports.bond0: mode native reverse_path strict -> mode auto" {
		t.Errorf("changes %v", d)
	}
	if d := Diff(&running, Default("eth0")); len(d) != 1 || d[0].Key != "ports.bond0" || d[0].Kind != Removed {
		t.Errorf("changes %v", d)
	}
	_, err = WithMembers(file.Ports, func(string) ([]string, error) { return nil, errors.New("no netlink") })
	if err == nil {
		t.Error("an unknown list of members is no error")
	}
}
