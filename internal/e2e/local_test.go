package e2e

import (
	"net/netip"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
)

// Through a tunnel a gateway's own addresses are reached, and from there what is behind the
// other gateway, if Linux has a route by the interface of tunnels; without one it is given
// nothing, as it would answer in clear.
func TestTheGatewayItselfIsReachedThroughTunnels(t *testing.T) {
	n := newNarrowPath(t, "", "  interface: ipsec0\n")
	for _, e := range narrowEnds {
		server, own := netip.MustParsePrefix(e.server), netip.MustParsePrefix(gatewayOf(e.client))
		refused := n.a.drops("local_delivery")
		if _, err := lab.Ping(n.server, own.Addr(), lab.PingOptions{Count: 2, Timeout: 200 * time.Millisecond}); err == nil {
			t.Errorf("%v answers without a way back", own.Addr())
		}
		if got := n.a.drops("local_delivery") - refused; got != 2 {
			t.Errorf("%d packets to %v dropped, want 2", got, own.Addr())
		}
		must(t, n.gatewayA, "ip", "route", "replace", server.Masked().String(), "dev", "ipsec0", "src", own.Addr().String())
		for deadline := time.Now().Add(5 * time.Second); ; {
			_, err := lab.Ping(n.server, own.Addr(), lab.PingOptions{Count: 1, Timeout: 100 * time.Millisecond})
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
		for _, size := range []int{56, 1100, 3000} { // the last one in fragments, when both know what fits
			_, _ = lab.Ping(n.server, own.Addr(), lab.PingOptions{Count: 3, Size: size, Timeout: 100 * time.Millisecond})
			if _, err := lab.Ping(n.server, own.Addr(), lab.PingOptions{Size: size}); err != nil {
				t.Errorf("%d bytes: %v", size, err)
			}
		}
		if _, err := lab.Ping(n.gatewayA, server.Addr(), lab.PingOptions{}); err != nil {
			t.Error(err)
		}
		if _, err := lab.Ping(n.client, server.Addr(), lab.PingOptions{}); err != nil {
			t.Errorf("of what is forwarded: %v", err)
		}
		for _, d := range []struct {
			from, to *lab.Namespace
			addr     netip.Addr
		}{{n.gatewayA, n.server, server.Addr()}, {n.server, n.gatewayA, own.Addr()}} {
			if _, err := lab.Transfer(d.from, d.to, d.addr, 1<<18, 10*time.Second); err != nil {
				t.Error(err)
			}
		}
	}
	if got := n.b.drops("xfrm_in_tmpl_mismatch"); got != 0 {
		t.Errorf("%d packets arrived in clear at the other gateway", got)
	}
	if b := n.a.stop(); b.transmitted+b.dropped != b.received {
		t.Errorf("%+v does not add up", b)
	}
}
