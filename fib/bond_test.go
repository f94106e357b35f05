package fib

import (
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// Members share the buckets; a change moves those of members that fail or return, and a deleted bond has none.
func TestBondMembers(t *testing.T) {
	f := New(1)
	f.VLANs.SetPhysical(4)
	number, err := f.VLANs.Take()
	require.NoError(t, err)
	if c := f.VLANs.Carrier(number); c != 0 {
		t.Errorf("a number that is no bond yet is carried by %d", c.Port())
	}
	f.Bonds.Add(number)
	if c := f.VLANs.Carrier(number); c.Port() != number || c.Tags() != 0 || f.Bonds.Members(number) != nil {
		t.Errorf("a new bond is carried by %d with %d tags, members %v", c.Port(), c.Tags(), f.Bonds.Members(number))
	}
	for port := range uint16(4) {
		if port > 0 {
			f.Bonds.SetMaster(port, number)
		}
	}
	if f.Bonds.Master(0) != 0 || f.Bonds.Master(3) != number {
		t.Errorf("masters %d, %d", f.Bonds.Master(0), f.Bonds.Master(3))
	}
	members := func(dead ...uint32) (paths []Path) {
		for port := uint32(1); port <= 3; port++ {
			p := Path{Adjacency: port, Weight: 1}
			for _, d := range dead {
				p.Dead = p.Dead || d == port
			}
			paths = append(paths, p)
		}
		return paths
	}
	f.Bonds.SetMembers(number, members())
	all := *f.Bonds.Members(number)
	for dead := uint32(1); dead <= 3; dead++ {
		f.Bonds.SetMembers(number, members(dead))
		now := f.Bonds.Members(number)
		if now.Single() {
			t.Error("two members are one")
		}
		for hash := range uint32(Buckets) {
			was, is := all.Port(hash<<24), now.Port(hash<<24)
			if is == uint16(dead) || was != uint16(dead) && is != was {
				t.Errorf("member %d fails: bucket %d moves from %d to %d", dead, hash, was, is)
			}
		}
	}
	f.Bonds.SetMembers(number, members(1, 3))
	if m := f.Bonds.Members(number); !m.Single() || m.Port(0) != 2 || m.Port(1<<31) != 2 {
		t.Errorf("the last member: %+v", m)
	}
	f.Bonds.SetMembers(number, members(1, 2, 3))
	if f.Bonds.Members(number) != nil {
		t.Error("failed members transmit")
	}
	f.Bonds.SetMembers(number, members())
	if *f.Bonds.Members(number) != all {
		t.Error("flows do not return")
	}

	// VLANs on a bond are carried by it.
	vlan, err := f.VLANs.Take()
	require.NoError(t, err)
	tag, _ := MakeTag(0x8100, 7)
	require.NoError(t, f.VLANs.Add(vlan, number, tag))
	if c := f.VLANs.Carrier(vlan); c.Port() != number || c.Tags() != 1 || c.Tag(0) != tag || !f.VLANs.Tagged(number) {
		t.Errorf("a VLAN on a bond is carried by %d with %d tags", c.Port(), c.Tags())
	}
	f.VLANs.Delete(vlan, number, tag)
	f.Bonds.Delete(number)
	if f.Bonds.Members(number) != nil || f.Bonds.Master(1) != 0 || f.VLANs.Carrier(number) != 0 || f.VLANs.Used() != 0 {
		t.Error("a deleted bond has members, a carrier or a number")
	}
}
