package e2e

import (
	"net/netip"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
)

// With a route by the tunnel interface, a gateway's own addresses are reachable through a tunnel, and
// the network behind the other gateway from it. Without a route, arriving packets are dropped:
// Linux would answer in plaintext.
func TestGatewayIsReachableThroughTunnels(t *testing.T) {
	n := newNarrowPath(t, "", "  interface: ipsec0\n")
	for _, e := range narrowEnds {
		server, own := netip.MustParsePrefix(e.server), netip.MustParsePrefix(gatewayOf(e.client))
		refused := n.a.Drops("local_delivery")
		if _, err := lab.Ping(n.server, own.Addr(), lab.PingOptions{Count: 2, Timeout: 200 * time.Millisecond}); err == nil {
			t.Errorf("%v answers without a way back", own.Addr())
		}
		if got := n.a.Drops("local_delivery") - refused; got != 2 {
			t.Errorf("%d packets to %v dropped, want 2", got, own.Addr())
		}
		ip(t, n.gatewayA, "route replace "+server.Masked().String()+" dev ipsec0 src "+own.Addr().String())
		eventually(t, 5*time.Second, "the gateway answers", func() bool {
			_, err := lab.Ping(n.server, own.Addr(), lab.PingOptions{Count: 1, Timeout: 100 * time.Millisecond})
			return err == nil
		})
		for _, size := range []int{56, 1100, 3000} { // the last one in fragments, once both know the MTU
			_, _ = lab.Ping(n.server, own.Addr(), lab.PingOptions{Count: 3, Size: size, Timeout: 100 * time.Millisecond})
			if _, err := lab.Ping(n.server, own.Addr(), lab.PingOptions{Size: size}); err != nil {
				t.Errorf("%d bytes: %v", size, err)
			}
		}
		checkPing(t, n.gatewayA, server.Addr(), lab.PingOptions{})
		if _, err := lab.Ping(n.client, server.Addr(), lab.PingOptions{}); err != nil {
			t.Errorf("a forwarded ping: %v", err)
		}
		for _, d := range []struct {
			from, to *lab.Namespace
			addr     netip.Addr
		}{{n.gatewayA, n.server, server.Addr()}, {n.server, n.gatewayA, own.Addr()}} {
			checkTransfer(t, d.from, d.to, d.addr, 1<<18, 10*time.Second)
		}
	}
	if got := n.b.Drops("xfrm_in_tmpl_mismatch"); got != 0 {
		t.Errorf("%d plaintext packets arrived at the other gateway", got)
	}
	if b := n.a.Stop(); b.Transmitted+b.Dropped != b.Received {
		t.Errorf("%+v does not add up", b)
	}
}
