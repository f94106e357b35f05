package mirror

import (
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// Linux reports a change of ignore_routes_with_linkdown but not of the affected routes. Each case
// sets it while the link of the better route has no carrier, and resets it.
func TestLinkdownSettingIsFollowedWhileALinkIsDown(t *testing.T) {
	for _, test := range []struct{ name, setting, addr string }{
		{"IPv4, all", "net.ipv4.conf.all", "30.0.0.1"},
		{"IPv4, one", "net.ipv4.conf.wan", "30.0.0.1"},
		{"IPv6, all", "net.ipv6.conf.all", "fd30::1"},
		{"IPv6, one", "net.ipv6.conf.wan", "fd30::1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t).start()
			w.ip("route add 30.0.0.0/24 via 10.2.0.2 metric 10", "route add 30.0.0.0/24 via 10.1.0.2 metric 50",
				"route add fd30::/64 via fd02::2 metric 10", "route add fd30::/64 via fd01::2 metric 50")
			_, err := w.batch(w.peer, "link set wan1 down")
			require.NoError(t, err)
			w.wantSoon(test.addr, "wan down ?")
			set := func(value string) {
				t.Helper()
				require.NoError(t, w.router.Sysctl(test.setting+".ignore_routes_with_linkdown", value))
				w.m.settle()
			}
			linux := func(dev string) {
				t.Helper()
				out, err := w.router.Run("ip", "route", "get", test.addr)
				if err != nil || !strings.Contains(out, " dev "+dev+" ") {
					t.Errorf("Linux does not use %s: %v %s", dev, err, out)
				}
				if v, err := w.m.Verify(); err != nil || v.Different != 0 {
					t.Errorf("the tables differ from Linux's: %+v, %v", v, err)
				}
			}
			set("1")
			w.wantSoon(test.addr, "lan ?")
			linux("lan")
			set("0")
			w.wantSoon(test.addr, "wan down ?")
			linux("wan")
			set("1")
			w.wantSoon(test.addr, "lan ?")
			_, err = w.batch(w.peer, "link set wan1 up")
			require.NoError(t, err)
			w.wantSoon(test.addr, "wan ?")
		})
	}
}
