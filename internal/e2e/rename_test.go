package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
)

// A port that is renamed is the port still, by the settings of its new name: not by those of
// another interface that takes the old one.
func TestAPortThatIsRenamed(t *testing.T) {
	n := newTopology(t, lab.VethOptions{})
	r := startRouter(t, n.Router, "--port", lab.LAN, "--port", lab.WAN)
	must(t, n.Router, "ip", "link", "set", lab.LAN, "name", "office")
	eventually(t, 5*time.Second, "show ports has both names", func() bool {
		return strings.Contains(r.command("show", "ports")(), lab.LAN+": its interface is called office now")
	})
	for _, args := range [][]string{{"route", "lookup", lab.Client4.Addr().String()}, {"show", "routes"}} {
		if out := r.command(args...)(); strings.Contains(out, "office") || !strings.Contains(out, lab.LAN) {
			t.Errorf("%v does not call the port %s alone:\n%s", args, lab.LAN, out)
		}
	}
	must(t, n.Router, "ip", "link", "add", lab.LAN, "type", "veth", "peer", "other")
	if err := n.Router.Sysctl("net.ipv4.conf."+lab.LAN+".rp_filter", "2"); err != nil {
		t.Fatal(err)
	}
	if err := n.Router.Sysctl("net.ipv4.conf.office.rp_filter", "1"); err != nil {
		t.Fatal(err)
	}
	mac, err := n.Router.MAC("office")
	if err != nil {
		t.Fatal(err)
	}
	must(t, n.Client, "ip", "neigh", "replace", lab.LAN4.Addr().String(), "lladdr", mac.String(), "dev", lab.ClientLink) // Linux refuses its ARP, too
	must(t, n.Client, "ip", "addr", "add", "10.99.0.1/32", "dev", lab.ClientLink)                                        // where the router has no route to
	spoof := func() bool {
		before := r.drops("reverse_path")
		_, _ = n.Client.Run("ping", "-c1", "-W0.2", "-I", "10.99.0.1", lab.Server4.Addr().String())
		return r.drops("reverse_path") > before
	}
	eventually(t, 5*time.Second, "a packet from nowhere is refused", spoof)
	must(t, n.Router, "ip", "route", "add", "10.99.0.0/16", "dev", lab.WAN) // which is enough for loose
	if !spoof() {
		t.Error("the port goes by the settings of the interface that has its old name")
	}
	if _, err := lab.Ping(n.Client, lab.Server4.Addr(), lab.PingOptions{}); err != nil {
		t.Error(err)
	}
}

// A reload that has a renamed port go by Linux's settings reads those of its new name.
func TestAPortThatIsRenamedIsReloaded(t *testing.T) {
	top := newTopology(t, lab.VethOptions{})
	r := startReloading(t, top)
	must(t, top.Router, "ip", "link", "set", lab.LAN, "name", "office")
	reload := func(reversePath string) {
		t.Helper()
		text := fmt.Sprintf("ports: [{interface: %s, reverse_path: %s}, {interface: %s}]\n", lab.LAN, reversePath, lab.WAN)
		if err := os.WriteFile(r.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, errs := r.reload(); code != 0 {
			t.Fatalf("%s: exit code %d, %s", reversePath, code, errs)
		}
	}
	reload("off")
	if err := top.Router.Sysctl("net.ipv4.conf.office.rp_filter", "1"); err != nil {
		t.Fatal(err)
	}
	reload("auto")
	eventually(t, 5*time.Second, "the port is strict", func() bool { return strings.Contains(r.out.String(), "ipv4=strict") })
}
