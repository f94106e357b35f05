// Package strongswan tests the warproute program as an IPsec gateway with keys from Debian's
// strongSwan, by way of Linux's XFRM.
//
// It needs a kernel with ESP and AF_XDP, so all of it runs in a virtual machine.
package strongswan

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/guest"
	"github.com/warproute/warproute/internal/lab/labtest"
)

func TestStrongSwan(t *testing.T) {
	guest.InVM(t, 200*time.Second, []string{"veth", "bridge", "xfrm_user", "esp4", "drbg", "seqiv"}, testTunnel)
}

// testTunnel establishes a tunnel by traffic, rekeys it from either side and by a limit under
// load, and terminates it; traffic establishes it again.
func testTunnel(t *testing.T, program string) {
	n := newNetwork(t, program)
	w := n.watch()

	n.answered("traffic has brought the tunnel up")
	n.agrees("when the tunnel is up", 2)
	for _, f := range families {
		if _, err := lab.Ping(n.client, f.server.Addr(), lab.PingOptions{Timeout: 3 * time.Second}); err != nil {
			t.Fatal(err)
		}
	}

	n.linuxEncryptsNothing()

	var loads []*load
	for _, f := range families {
		loads = append(loads, n.startLoad(f))
	}
	time.Sleep(time.Second)
	for range 2 {
		n.rekey("from our side", func() { n.a.swanctl("--rekey", "--child", "net") })
		n.rekey("from the peer's side", func() { n.b.swanctl("--rekey", "--child", "net") })
	}
	n.rekey("by a limit", n.transfer) // which brings it near
	time.Sleep(time.Second)
	for _, l := range loads {
		l.end(t)
	}
	if t.Failed() {
		n.refusals()
	}
	n.agrees("after the load", 2)
	w.check(true)

	n.b.load("") // so that it refuses new ones
	n.a.swanctl("--terminate", "--ike", "peer")
	n.agrees("when the tunnel is down", 0)
	dropped := n.Drops("xfrm_out_no_states")
	const pings = 5
	for _, f := range families {
		if r, _ := lab.Ping(n.client, f.server.Addr(), lab.PingOptions{Count: pings, Timeout: 100 * time.Millisecond}); r.Received > 0 {
			t.Errorf("without a tunnel, %d pings to %v are answered", r.Received, f.server.Addr())
		}
	}
	if got := n.Drops("xfrm_out_no_states") - dropped; got != pings*uint64(len(families)) {
		t.Errorf("without a tunnel, %d packets dropped as xfrm_out_no_states", got)
	}
	w.check(false)

	n.b.load("swanctl.conf")
	n.answered("traffic has brought the tunnel up again")
	n.agrees("when the tunnel is up again", 2)
	for _, f := range families {
		l := n.startLoad(f)
		time.Sleep(500 * time.Millisecond)
		l.end(t)
	}
	n.agrees("at the end", 2)
	w.check(true)
	shown := labtest.Run(n.t, n.a.Namespace, n.program, "show", "sas", "--socket", n.Socket)
	for _, m := range stateText.FindAllStringSubmatch(labtest.Run(n.t, n.a.Namespace, "ip", "-s", "xfrm", "state"), -1) {
		if !strings.Contains(shown, m[3]) {
			t.Errorf("`warproute show sas` lacks %s:\n%s", m[3], shown)
		}
	}
}

// linuxEncryptsNothing sends packets of the gateway itself that the tunnel's policies match. Linux would encrypt them with
// sequence numbers that the router uses, too; the guard drops them. IKE has passed by now.
func (n *network) linuxEncryptsNothing() {
	n.t.Helper()
	const pings = 3
	inner := map[string]string{"IPv4": "10.1.0.1", "IPv6": "fd01::1"}
	for _, f := range families {
		out, err := n.a.Run("ping", "-c", strconv.Itoa(pings), "-i", "0.2", "-W", "1", "-I", inner[f.name], f.server.Addr().String())
		if err == nil {
			n.t.Errorf("pings of the gateway itself to %v are answered:\n%s", f.server.Addr(), out)
		}
	}
	rule := labtest.Run(n.t, n.a.Namespace, "nft", "list", "chain", "inet", "warproute", "postrouting")
	if want := fmt.Sprintf("counter packets %d ", pings*len(families)); !strings.Contains(rule, want) {
		n.t.Errorf("want %q in\n%s", want, rule)
	}
}
