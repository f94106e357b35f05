package guard

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// Before a gateway runs, Linux does not forward from or to an interface on a port that was created after the guard, with any name.
// A running gateway knows them, and blocks no others.
func TestInterfacesOnPortsAreGuardedBeforeTheStart(t *testing.T) {
	top, err := lab.NewTopology(lab.VethOptions{})
	require.NoError(t, err)
	defer top.Close()
	require.NoError(t, top.Forwarding(true))
	table := openTable(t, top.Router)
	guard(t, table, true, "lan0")
	for _, c := range []struct {
		ns      *lab.Namespace
		command string
	}{
		{top.Router, "ip link add upper link lan0 up type macvlan mode private"},
		{top.Router, "ip addr add 10.55.0.1/24 dev upper"},
		{top.Client, "ip addr add 10.55.0.2/24 dev " + lab.ClientLink},
		{top.Client, "ip route replace default via 10.55.0.1 src 10.55.0.2"},
	} {
		run(t, c.ns, c.command)
	}
	mac, err := top.Router.MAC("upper")
	require.NoError(t, err)
	run(t, top.Client, fmt.Sprintf("ip neigh replace 10.55.0.1 lladdr %v dev %s", mac, lab.ClientLink)) // the port answers ARP, too
	forwards := func() bool {
		r, _ := lab.Ping(top.Client, lab.Server4.Addr(), lab.PingOptions{Count: 1, Timeout: 300 * time.Millisecond})
		return r.Received > 0
	}
	await(t, "Linux forwards between an interface on a port and another", forwards)
	require.NoError(t, table.GuardStacked())
	require.NoError(t, table.GuardStacked()) // again
	if forwards() {
		t.Error("Linux forwards before the gateway runs")
	}
	if r, _ := lab.Ping(top.Client, netip.MustParseAddr("10.55.0.1"), lab.PingOptions{Count: 1}); r.Received != 1 {
		t.Error("the host itself is not reached")
	}
	listed := run(t, top.Router, "nft list table inet warproute-start")
	for kind := range sameWire {
		for _, rule := range []string{"iifkind \"" + kind + "\" counter", "oifkind \"" + kind + "\" counter"} {
			if !strings.Contains(listed, rule) {
				t.Errorf("no %s in\n%s", rule, listed)
			}
		}
	}

	w, _ := watch(t, top.Router, true, "lan0")
	require.NoError(t, w.GuardStacked())
	if !strings.Contains(run(t, top.Router, "nft list tables"), "inet warproute-start") {
		t.Error("a gateway that is starting has released the interfaces")
	}
	w.Started()
	await(t, "a running gateway knows the interfaces on its ports", func() bool {
		return !strings.Contains(run(t, top.Router, "nft list tables"), "inet warproute-start")
	})
	if names, _ := table.Guarded(); !slices.Contains(names, "upper") || forwards() {
		t.Errorf("a running gateway guards %v", names)
	}
	require.NoError(t, table.GuardStacked()) // the unit of the guard is started again
	await(t, "a running gateway releases others again", func() bool {
		return !strings.Contains(run(t, top.Router, "nft list tables"), "inet warproute-start")
	})

	require.NoError(t, w.GuardStacked()) // it ends
	time.Sleep(2 * refreshDelay)
	if guards, err := table.GuardsStacked(); err != nil || !guards {
		t.Errorf("after a gateway has ended: %v, %v", guards, err)
	}
}

func TestReleaseOfAllInterfacesReleasesThoseOnThem(t *testing.T) {
	ns := newNamespace(t)
	table := openTable(t, ns)
	for _, names := range [][]string{{"lan0", "wan0"}, nil} {
		require.NoError(t, table.GuardStacked())
		if names != nil {
			guard(t, table, true, names...)
			require.NoError(t, table.Release("lan0"))
			if got := run(t, ns, "nft list tables"); !strings.Contains(got, startTable) {
				t.Errorf("with a guarded interface, nft lists\n%s", got)
			}
		}
		require.NoError(t, table.Release(names...))
		if got := run(t, ns, "nft list ruleset"); got != "" {
			t.Errorf("after Release of all interfaces, nft lists\n%s", got)
		}
	}
}
