package e2e

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// Linux's forwarding settings do not affect ports: a port with disable_ipv6 has no addresses and
// routes, but forwards received packets.
func TestPortsIgnoreLinuxForwardingSettings(t *testing.T) {
	n, r := startTwoPorts(t)
	mustPing(t, n.Client, lab.Server6.Addr(), lab.PingOptions{})
	mac := macOf(t, n.Router, lab.LAN)
	must(t, n.Client, "ip", "neigh", "replace", lab.LAN6.Addr().String(), "lladdr", mac.String(), "dev", lab.ClientLink, "nud", "permanent")
	sysctl(t, n.Router, "net.ipv6.conf."+lab.LAN+".disable_ipv6", "1")
	time.Sleep(effect)
	asked, unrouted := echoesAt(t, n.Server), r.Drops("no_route")
	_, _ = lab.Ping(n.Client, lab.Server6.Addr(), lab.PingOptions{Count: 3, Timeout: 200 * time.Millisecond})
	if got := echoesAt(t, n.Server) - asked; got != 3 {
		t.Errorf("%d packets of 3 arrived", got)
	}
	if got := r.Drops("no_route") - unrouted; got < 3 {
		t.Errorf("%d answers were dropped as no_route, want 3", got)
	}
}

// echoesAt returns how many ICMPv6 echo requests a namespace has received.
func echoesAt(t *testing.T, ns *lab.Namespace) int {
	t.Helper()
	out, err := ns.Run("cat", "/proc/net/snmp6")
	require.NoError(t, err)
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "Icmp6InEchos" {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	t.Fatalf("no count of echo requests in %q", out)
	return 0
}
