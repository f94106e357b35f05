package netdev_test

import (
	"testing"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/internal/require"
)

// Devices agrees with package netlink on all kinds of devices that this kernel has.
func TestDevicesEqualThoseOfPackageNetlink(t *testing.T) {
	ns, err := lab.New("devices")
	require.NoError(t, err)
	defer ns.Close()
	other, err := lab.New("others")
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, lab.Veth(lab.End{Namespace: ns, Name: "a0"}, lab.End{Namespace: ns, Name: "b0"}, lab.VethOptions{}))
	require.NoError(t, lab.Veth(lab.End{Namespace: ns, Name: "far0"}, lab.End{Namespace: other, Name: "far0"}, lab.VethOptions{}))
	made := map[string]bool{}
	for _, args := range [][]string{
		{"br0", "type", "bridge"}, {"mac0", "link", "a0", "type", "macvlan"}, {"vlan7", "link", "a0", "type", "vlan", "id", "7"},
		{"vrf0", "type", "vrf", "table", "7"}, {"bond0", "type", "bond", "mode", "active-backup"}, {"dummy0", "type", "dummy"}, {"tunl", "type", "ipip"},
		{"gre1", "type", "gretap", "remote", "192.0.2.1"},
	} {
		_, err := ns.Run("ip", append([]string{"link", "add"}, args...)...)
		made[args[0]] = err == nil // otherwise this kernel lacks the kind
	}
	if !made["br0"] || !made["mac0"] {
		t.Fatalf("no bridge or macvlan: %v", made)
	}
	for _, args := range [][]string{{"link", "set", "b0", "master", "br0"}, {"link", "set", "a0", "up"}, {"link", "set", "lo", "up"}, {"tuntap", "add", "tap0", "mode", "tap"}, {"tuntap", "add", "tun0", "mode", "tun"}} {
		if _, err := ns.Run("ip", args...); err != nil {
			t.Fatal(err)
		}
	}
	require.NoError(t, ns.Do(func() error {
		got, err := netdev.Devices()
		if err != nil {
			return err
		}
		want, err := netdev.DevicesByNetlink()
		if err != nil {
			return err
		}
		if len(got) != len(want) || len(got) < 8 {
			t.Fatalf("%d devices, want %d: %+v", len(got), len(want), got)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("got  %+v\nwant %+v", got[i], want[i])
			}
		}
		return nil
	}))
}
