package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
)

// A renamed port keeps forwarding, with the settings of its new name, not those of another interface
// with the old name.
func TestRenamedPortKeepsForwarding(t *testing.T) {
	n, r := startTwoPorts(t)
	ip(t, n.Router, "link set "+lab.LAN+" name office")
	eventually(t, 5*time.Second, "show ports has both names", func() bool {
		return strings.Contains(r.command("show", "ports")(), lab.LAN+": the interface was renamed to office")
	})
	for _, args := range [][]string{{"route", "lookup", lab.Client4.Addr().String()}, {"show", "routes"}} {
		if out := r.command(args...)(); strings.Contains(out, "office") || !strings.Contains(out, lab.LAN) {
			t.Errorf("%v does not call the port %s alone:\n%s", args, lab.LAN, out)
		}
	}
	ip(t, n.Router, "link add "+lab.LAN+" type veth peer other")
	sysctl(t, n.Router, "net.ipv4.conf."+lab.LAN+".rp_filter", "2")
	sysctl(t, n.Router, "net.ipv4.conf.office.rp_filter", "1")
	mac := macOf(t, n.Router, "office")
	ip(t, n.Client, "neigh replace "+lab.LAN4.Addr().String()+" lladdr "+mac.String()+" dev "+lab.ClientLink) // Linux drops its ARP, too
	must(t, n.Client, "ip", "addr", "add", "10.99.0.1/32", "dev", lab.ClientLink)                             // without a route in the router
	spoof := func() bool {
		before := r.Drops("reverse_path")
		_, _ = n.Client.Run("ping", "-c1", "-W0.2", "-I", "10.99.0.1", lab.Server4.Addr().String())
		return r.Drops("reverse_path") > before
	}
	eventually(t, 5*time.Second, "a packet from an unrouted source is refused", spoof)
	ip(t, n.Router, "route add 10.99.0.0/16 dev "+lab.WAN) // which satisfies loose
	if !spoof() {
		t.Error("the port uses the settings of the interface with its old name")
	}
	checkPing(t, n.Client, lab.Server4.Addr(), lab.PingOptions{})
}

func TestReloadReadsSettingsOfARenamedPort(t *testing.T) {
	top := newTopology(t, lab.VethOptions{})
	r := startReloading(t, top)
	ip(t, top.Router, "link set "+lab.LAN+" name office")
	reload := func(reversePath string) {
		t.Helper()
		text := fmt.Sprintf("ports: [{interface: %s, reverse_path: %s}, {interface: %s}]\n", lab.LAN, reversePath, lab.WAN)
		writeFile(t, r.path, text)
		if code, _, errs := r.reload(); code != 0 {
			t.Fatalf("%s: exit code %d, %s", reversePath, code, errs)
		}
	}
	reload("off")
	sysctl(t, top.Router, "net.ipv4.conf.office.rp_filter", "1")
	reload("auto")
	eventually(t, 5*time.Second, "the port is strict", func() bool { return strings.Contains(r.Out.String(), "ipv4=strict") })
}
