package mirror

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
)

func (w *world) index(name string) int {
	w.t.Helper()
	l, err := w.router.Link(name)
	require.NoError(w.t, err)
	return l.Attrs().Index
}

// A link becomes a port, with its routes, neighbors and VLANs, and is none again.
func TestPortIsAddedAndRemoved(t *testing.T) {
	w := newWorld(t)
	w.spare = 2
	w.ip(known...)
	w.ip("neigh replace 10.3.0.2 lladdr 02:00:00:00:03:02 dev oob", "route add 30.0.0.0/8 via 10.3.0.2",
		"route add 31.0.0.0/8 nexthop via 10.3.0.2 nexthop via 10.1.0.2")
	w.start()
	before := func() {
		t.Helper()
		w.want("30.0.0.1", "no port", "10.3.0.9", "no port", "31.0.0.1", lan2)
	}
	before()
	for round := range 5 {
		number := 2 + round%2
		require.NoError(t, w.m.AddPort(number, Port{Name: "oob", Ifindex: w.index("oob")}))
		w.m.settle()
		port := fmt.Sprintf("port%d ", number)
		w.want("30.0.0.1", port+"02:00:00:00:03:02", "10.3.0.9", port+"?", "10.3.0.2", port+"02:00:00:00:03:02")
		if got := w.outcome("31.0.0.1"); !strings.Contains(got, port) || !strings.Contains(got, lan2) {
			t.Errorf("the multipath route leads to %q", got)
		}
		w.m.RemovePort(number)
		w.m.settle()
		before()
		if mtu := w.fib.Port(uint16(number)).MTU(); mtu != 0 {
			t.Errorf("the removed port has an MTU of %d", mtu)
		}
	}
	w.sameAsFresh()
}

func TestAddPortRefuses(t *testing.T) {
	w := newWorld(t)
	w.spare = 1
	w.start()
	for _, c := range []struct {
		number int
		port   Port
		want   string
	}{
		{0, Port{Name: "oob", Ifindex: w.index("oob")}, "number 0 is port lan"},
		{2, Port{Name: "oob", Ifindex: 4000}, "does not exist"},
		{2, Port{Name: "wan", Ifindex: w.index("wan")}, "belongs to port wan"},
	} {
		if err := w.m.AddPort(c.number, c.port); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.port, err, c.want)
		}
	}
	require.NoError(t, w.m.Close())
	if err := w.m.AddPort(2, Port{Name: "oob", Ifindex: w.index("oob")}); err == nil {
		t.Error("a closed mirror has added a port")
	}
}

// A port is removed after its link has gone, and another one gets its number.
func TestNumberOfADeletedLinkIsFree(t *testing.T) {
	w := newWorld(t)
	w.spare = 1
	w.start()
	require.NoError(t, w.m.AddPort(2, Port{Name: "oob", Ifindex: w.index("oob")}))
	w.ip("link del oob")
	if w.fib.Port(2).MTU() != 0 {
		t.Error("the port of a deleted link is up")
	}
	w.m.RemovePort(2)
	w.join("oob")
	w.m.settle()
	if w.fib.Port(2).MTU() != 0 {
		t.Error("a link with the name of a removed port is a port")
	}
	require.NoError(t, w.m.AddPort(2, Port{Name: "oob", Ifindex: w.index("oob")}))
	for end := time.Now().Add(5 * time.Second); w.fib.Port(2).MTU() != 1500; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the new port has an MTU of %d", w.fib.Port(2).MTU())
		}
	}
}

// VLANs exist while their physical port does.
func testVLANsOfAnAddedPort(t *testing.T) {
	w := newWorld(t)
	w.spare = 2
	w.ip("link add oob.7 link oob type vlan id 7", "link set oob.7 up", "addr add 10.37.0.1/24 dev oob.7", "neigh replace 10.37.0.2 lladdr 02:00:00:00:03:07 dev oob.7")
	w.start()
	for round := range 4 {
		number := 2 + round%2
		w.want("10.37.0.2", "no port")
		require.NoError(t, w.m.AddPort(number, Port{Name: "oob", Ifindex: w.index("oob")}))
		w.wantSoon("10.37.0.2", fmt.Sprintf("port%d 802.1Q 7 02:00:00:00:03:07", number))
		w.m.RemovePort(number)
		w.m.settle()
		if n := w.fib.VLANs.Used(); n != 0 {
			t.Errorf("%d VLANs of a removed port", n)
		}
	}
	w.ip("link add lan.5 link lan type vlan id 5")
	if err := w.m.AddPort(2, Port{Name: "lan.5", Ifindex: w.index("lan.5")}); err == nil || !strings.Contains(err.Error(), "belongs to port lan.5") {
		t.Errorf("a VLAN of a port is added: %v", err)
	}
}
