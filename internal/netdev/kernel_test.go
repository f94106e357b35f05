package netdev_test

import (
	"net"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/internal/require"
)

func TestLayersAndCarrierOfTheKernel(t *testing.T) {
	ns, err := lab.New("netdev")
	require.NoError(t, err)
	defer ns.Close()
	require.NoError(t, lab.Veth(lab.End{Namespace: ns, Name: "a0"}, lab.End{Namespace: ns, Name: "b0"}, lab.VethOptions{}))
	for _, args := range [][]string{{"link", "add", "br0", "type", "bridge"}, {"link", "set", "b0", "master", "br0"}, {"addr", "add", "192.0.2.1/24", "dev", "a0"}, {"addr", "add", "192.0.2.2/24", "dev", "br0", "label", "br0:x"}, {"link", "property", "add", "dev", "a0", "altname", "another"}, {"link", "set", "a0", "up"}, {"link", "set", "b0", "up"}} {
		if _, err := ns.Run("ip", args...); err != nil {
			t.Fatal(err)
		}
	}
	err = ns.Do(func() error {
		for name, want := range map[string]string{"a0": "a0:veth:veth", "br0": "br0:bridge:bridge b0:veth:veth"} {
			layers, err := netdev.Layers(name)
			if err != nil {
				return err
			}
			var got []string
			for _, d := range layers {
				got = append(got, d.Name+":"+d.Kind+":"+d.Driver)
			}
			if strings.Join(got, " ") != want || netdev.CheckPort(name) != nil {
				t.Errorf("%s is made of %q, want %q (%v)", name, got, want, netdev.CheckPort(name))
			}
		}
		if _, err := netdev.Layers("none0"); err == nil || !strings.Contains(err.Error(), `no interface "none0"`) {
			t.Errorf("an interface that is not there: %v", err)
		}
		for name, has := range map[string]bool{"a0": true, "b0": false, "br0": true} {
			if got, err := netdev.HasIPv4(name); got != has || err != nil {
				t.Errorf("%s has an IPv4 address: %v, %v", name, got, err)
			}
		}
		if i, err := netdev.InterfaceByName("a0"); err != nil || i.Name != "a0" || i.MTU != 1500 || len(i.HardwareAddr) != 6 || i.Flags&net.FlagUp == 0 || i.Index == 0 {
			t.Errorf("a0: %+v, %v", i, err)
		}
		for _, name := range []string{"", "none0", "another", "name-longer-than-any"} {
			if _, err := netdev.InterfaceByName(name); err == nil {
				t.Errorf("interface %q exists", name)
			}
		}
		before, err := netdev.CarrierOf("a0")
		if err != nil {
			return err
		}
		for _, state := range []string{"down", "up"} {
			if _, err := ns.Run("ip", "link", "set", "b0", state); err != nil {
				return err
			}
			now, err := netdev.CarrierOf("a0")
			if err != nil || now.Up != (state == "up") || !before.Reset(now) {
				t.Errorf("the peer goes %s: %+v, before %+v, %v", state, now, before, err)
			}
		}
		return nil
	})
	require.NoError(t, err)
}
