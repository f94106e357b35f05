package mirror

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/hist"
	"github.com/warproute/warproute/internal/require"
)

func TestRoutesAndLookupAsText(t *testing.T) {
	w := newWorld(t)
	w.ip(known...)
	w.start()
	w.ip("nexthop add id 7 via 10.1.0.3 dev lan",
		"route add 20.0.0.0/8 proto static metric 100 nexthop via 10.1.0.2 weight 2 nexthop via 10.2.0.9",
		"route add 20.0.0.0/8 via 10.3.0.2 metric 200", "route add 21.0.0.0/8 nhid 7 proto bgp",
		"route add blackhole 22.0.0.0/8", "route add 23.0.0.0/8 via inet6 fe80::2 dev wan")
	for _, test := range []struct{ addr, want string }{
		{"20.1.1.1", "20.0.0.0/8 proto static metric 100 nexthop via 10.1.0.2 dev lan weight 2 nexthop via 10.2.0.9 dev wan weight 1"},
		{"21.1.1.1", "21.0.0.0/8 nhid 7 via 10.1.0.3 dev lan proto bgp"},
		{"22.1.1.1", "blackhole 22.0.0.0/8 proto boot"},
		{"23.1.1.1", "23.0.0.0/8 via fe80::2 dev wan proto boot"},
		{"10.1.0.2", "10.1.0.0/24 dev lan proto kernel"},
		{"10.1.0.1", "local 10.1.0.1/32 dev lan table local proto kernel"},
		{"fd01::2", "fd01::/64 dev lan proto kernel metric 256"},
	} {
		got, ok := w.m.Lookup(netip.MustParseAddr(test.addr))
		if !ok || got.String() != test.want || !got.Installed {
			t.Errorf("lookup of %s: %v %q, want %q", test.addr, ok, got, test.want)
		}
	}
	for _, addr := range []string{"99.0.0.1", "::ffff:22.1.1.1"} {
		if got, ok := w.m.Lookup(netip.MustParseAddr(addr)); ok {
			t.Errorf("lookup of %s, an address without a route: %v", addr, got)
		}
	}
	if _, ok := w.m.Lookup(netip.Addr{}); ok {
		t.Error("lookup of no address found a route")
	}

	multi, _ := w.m.Lookup(netip.MustParseAddr("20.1.1.1"))
	got, err := json.Marshal(multi)
	require.NoError(t, err)
	const want = `{"prefix":"20.0.0.0/8","type":"unicast","kind":"forward","table":"main","protocol":"static","metric":100,"installed":true,` +
		`"paths":[{"via":"10.1.0.2","dev":"lan","port":0,"weight":2,"mac":"02:00:00:00:01:02","dead":false},` +
		`{"via":"10.2.0.9","dev":"wan","port":1,"weight":1,"dead":false}]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if host, _ := w.m.Lookup(netip.MustParseAddr("10.1.0.2")); host.Paths[0].MAC != "02:00:00:00:01:02" {
		t.Errorf("lookup of a neighbor does not have its MAC address: %+v", host.Paths)
	}

	routes := w.m.Routes()
	i := slices.IndexFunc(routes, func(r RouteInfo) bool { return r.Metric == 200 })
	if i < 1 || routes[i].Installed || routes[i].Kind != "no port" || routes[i].Paths[0].Port != -1 || routes[i-1].Metric != 100 {
		t.Errorf("the worse route of two does not follow the better, not installed, over no port: %+v", routes)
	}
}

func TestNeighborsAsText(t *testing.T) {
	w := newWorld(t).start()
	w.ip("neigh add 10.2.0.2 dev wan lladdr 02:00:00:00:00:0b", "neigh add 10.1.0.2 dev lan lladdr 02:00:00:00:00:0a nud stale",
		"neigh add 10.3.0.2 dev oob lladdr 02:00:00:00:00:0c", "neigh add 30.0.0.1 dev wan lladdr 02:00:00:00:00:0d")
	var got []NeighborInfo
	for _, n := range w.m.Neighbors() {
		if n.Address.Is4() {
			got = append(got, n)
		}
	}
	want := []NeighborInfo{
		{netip.MustParseAddr("10.1.0.2"), "02:00:00:00:00:0a", "lan", 0, "stale", true},
		{netip.MustParseAddr("10.2.0.2"), "02:00:00:00:00:0b", "wan", 1, "permanent", true},
		{netip.MustParseAddr("30.0.0.1"), "02:00:00:00:00:0d", "wan", 1, "permanent", false},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestStatusWarnsOfUnsupportedRoutes(t *testing.T) {
	w := newWorld(t).start()
	if st := w.m.Status(); len(st.Warnings) != 0 {
		t.Errorf("warnings about an ordinary host: %q", st.Warnings)
	}
	before := w.m.Status()
	w.ip("rule add from 10.1.0.0/24 lookup 100 pref 50", "rule add from 10.2.0.0/24 lookup 100 pref 51",
		"route add 20.0.0.0/8 tos 0x10 via 10.1.0.2", "route add fd20::/16 from fd01::/64 via fd02::2",
		"route add 21.0.0.0/8 via 10.1.0.2 table default", "route add local 22.0.0.0/24 dev lo")
	st := w.m.Status()
	for _, word := range []string{"priority 50 ", "type of service", "by source", "table default", "22.0.0.0/24"} {
		if n := len(slices.DeleteFunc(slices.Clone(st.Warnings), func(s string) bool { return !strings.Contains(s, word) })); n != 1 {
			t.Errorf("%d warnings about %q in %q, want 1", n, word, st.Warnings)
		}
	}
	if len(st.Warnings) != 5 {
		t.Errorf("warnings: %q, want 5", st.Warnings)
	}
	if st.Events <= before.Events || st.LastUpdate <= 0 || st.LastUpdate > time.Minute {
		t.Errorf("status does not count: %+v, before %+v", st, before)
	}
	var updates hist.Snapshot
	w.m.Updates(&updates)
	if updates.Count == 0 {
		t.Error("no update was timed")
	}
	w.want("20.0.0.1", "none", "fd20::1", "none", "22.0.0.9", "local")
}

func TestWarningAtStart(t *testing.T) {
	w := newWorld(t)
	w.ip("rule add fwmark 1 lookup 100 pref 50")
	w.start()
	if st := w.m.Status(); len(st.Warnings) != 1 || !strings.Contains(st.Warnings[0], "priority 50 ") {
		t.Errorf("warnings: %q", st.Warnings)
	}
}

func TestClosedMirror(t *testing.T) {
	w := newWorld(t).start()
	require.NoError(t, w.m.Close())
	require.NoError(t, w.m.Close())
	w.m.settle()
	if st := w.m.Status(); st.RoutesIPv4 != 0 {
		t.Errorf("a closed mirror has status %+v", st)
	}
	if r := w.m.Routes(); len(r) != 0 {
		t.Errorf("a closed mirror has routes %v", r)
	}
	if _, ok := w.m.Lookup(netip.MustParseAddr("10.1.0.1")); ok {
		t.Error("a closed mirror finds routes")
	}
	w.want("10.1.0.1", "local") // the FIB stays
}

func TestStartWithoutTheLink(t *testing.T) {
	w := newWorld(t)
	err := w.router.Do(func() error {
		m, err := Start(w.fib, []Port{{Name: "lan", Ifindex: 4711}}, Hooks{}, nil)
		if err == nil {
			m.Close()
		}
		return err
	})
	if err == nil || !strings.Contains(err.Error(), `"lan"`) || !strings.Contains(err.Error(), "4711") {
		t.Errorf("start with a link that does not exist: %v", err)
	}
}
