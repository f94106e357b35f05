package e2e

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// A port that appears on a gateway is blocked for Linux's forwarding before its first packet, and stays blocked when it
// is removed: no protected packet leaves in cleartext meanwhile.
func TestAddedPortOfAGatewayLeaksNothing(t *testing.T) {
	l := newLeakLab(t)
	l.linuxForwards(true)
	text, err := os.ReadFile(l.config)
	require.NoError(t, err)
	writeFile(t, l.config, strings.Replace(string(text), "{interface: lan0}, {interface: wan0}", "wan0, \"lan*\"", 1))
	r := l.start()
	l.reachable("at the start")
	l.send(l.plain()...)
	for range 3 {
		ip(t, l.Router, "link set lan0 down", "link set lan0 name lan1", "link set lan1 up")
		r.awaitPorts("wan0", "lan1")
		ip(t, l.Router, "link set lan1 down", "link set lan1 name lan0", "link set lan0 up")
		r.awaitPorts("wan0", "lan0")
	}
	if out := must(t, l.Router, "nft", "list", "table", "inet", "warproute"); !strings.Contains(out, `"lan0"`) || !strings.Contains(out, `"lan1"`) {
		t.Errorf("the guard:\n%s", out)
	}
	ip(t, l.Router, "addr replace "+lab.LAN4.String()+" dev lan0", "addr replace "+lab.LAN6.String()+" dev lan0 nodad")
	l.wanted.Store(0)
	<-l.ended
	if n := l.clear.Load(); n > 0 {
		t.Errorf("%d protected packets left in cleartext", n)
	}
	eventually(t, 5*time.Second, "the host is reached", func() bool {
		_, err := lab.Ping(l.Client, netip.MustParseAddr("10.7.0.1"), lab.PingOptions{Count: 1})
		return err == nil
	})
	if l.sealed.Load() == 0 {
		t.Error("nothing was encrypted")
	}
}
