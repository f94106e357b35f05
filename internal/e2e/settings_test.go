package e2e

import (
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
)

// Linux's forwarding settings do not affect ports: a port with disable_ipv6 has no addresses and
// routes, but forwards received packets.
func TestPortsIgnoreLinuxForwardingSettings(t *testing.T) {
	n, r := startTwoPorts(t)
	mustPing(t, n.Client, lab.Server6.Addr(), lab.PingOptions{})
	mac := macOf(t, n.Router, lab.LAN)
	ip(t, n.Client, "neigh replace "+lab.LAN6.Addr().String()+" lladdr "+mac.String()+" dev "+lab.ClientLink+" nud permanent")
	sysctl(t, n.Router, "net.ipv6.conf."+lab.LAN+".disable_ipv6", "1")
	time.Sleep(effect)
	asked, unrouted := nstat(t, n.Server, "Icmp6InEchos"), r.Drops("no_route")
	_, _ = lab.Ping(n.Client, lab.Server6.Addr(), lab.PingOptions{Count: 3, Timeout: 200 * time.Millisecond})
	if got := nstat(t, n.Server, "Icmp6InEchos") - asked; got != 3 {
		t.Errorf("%d packets of 3 arrived", got)
	}
	if got := r.Drops("no_route") - unrouted; got < 3 {
		t.Errorf("%d answers were dropped as no_route, want 3", got)
	}
}
