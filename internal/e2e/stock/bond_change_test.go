package stock

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/guest"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// Members leave, return to and join a running router's bond, the bond is replaced, and reloads and captures name it.
func TestBondsThatChange(t *testing.T) {
	guest.InVM(t, 300*time.Second, []string{"veth", "8021q", "bonding", "macvlan"}, testBondChanges)
}

// testJoiningMember has a third member join the bonds of router and server, which is then the only one with a carrier, and
// leave.
func testJoiningMember(t *testing.T, n lab.Network, addrs []string, states, all func(string)) {
	t.Helper()
	require.NoError(t, lab.Veth(lab.End{Namespace: n["router"], Name: "wan2"}, lab.End{Namespace: n["server"], Name: "wan2"}, lab.VethOptions{MTU: 1504}))
	for _, ns := range []string{"router", "server"} {
		labtest.Run(t, n[ns], "ethtool", "-K", "wan2", "txvlan", "off", "tx-vlan-stag-hw-insert", "off", "tso", "off", "gso", "off")
		labtest.IP(t, n[ns], "link set wan2 down", "link set wan2 master bond0")
	}
	states("wan0 active wan1 active wan2 active")
	all("by three")
	for _, ns := range []string{"router", "server"} {
		labtest.IP(t, n[ns], "link set wan0 down", "link set wan1 down")
	}
	states("wan0 inactive wan1 inactive wan2 active")
	reaches(t, n, addrs...) // the server's bond has noticed it, too
	all("by the member that joined")
	for _, ns := range []string{"router", "server"} {
		labtest.IP(t, n[ns], "link set wan0 up", "link set wan1 up")
	}
	states("wan0 active wan1 active wan2 active")
	for _, ns := range []string{"router", "server"} {
		labtest.IP(t, n[ns], "link set wan2 nomaster")
	}
	states("wan0 active wan1 active")
	all("without it")
}

func testBondChanges(t *testing.T, program string) {
	n := newBondNetwork(t, "balance-xor")
	config := filepath.Join(t.TempDir(), "router.yaml")
	write := func(bond string) {
		t.Helper()
		require.NoError(t, os.WriteFile(config, []byte("ports: [{interface: lan0}, {"+bond+"}]\nengine: cpu\nmetrics: {listen: \"\"}\n"), 0o600))
	}
	write("interface: bond0")
	router := labtest.Start(t, n["router"], program, nil, "--config", config)
	addrs := []string{"10.2.0.2", "fd02::2", "10.3.0.2", "fd03::2"}
	reaches(t, n, addrs...)
	states := func(want string) {
		t.Helper()
		got := ""
		labtest.Eventually(t, 10*time.Second, "members are "+want, func() bool {
			var ports []status.Port
			require.NoError(t, router.Get("/ports", &ports))
			got = ""
			for _, p := range ports {
				for _, m := range p.Members {
					got += " " + m.Name + " " + m.State
				}
			}
			return strings.TrimSpace(got) == want
		})
	}
	states("wan0 active wan1 active")

	// A member leaves both bonds, and returns.
	for _, ns := range []string{"router", "server"} {
		labtest.IP(t, n[ns], "link set wan0 nomaster", "link set wan0 down")
	}
	states("wan0 released wan1 active")
	all := func(when string) {
		t.Helper()
		for _, to := range addrs {
			if r, err := lab.Ping(n["client"], netip.MustParseAddr(to), lab.PingOptions{Count: 5, Timeout: 2 * time.Second}); r.Received != 5 {
				t.Errorf("%s: %d of 5 pings to %s are answered: %v", when, r.Received, to, err)
			}
		}
	}
	all("by one member")
	for _, ns := range []string{"router", "server"} {
		labtest.IP(t, n[ns], "link set wan0 master bond0", "link set wan0 up")
	}
	states("wan0 active wan1 active")
	all("by both")
	testJoiningMember(t, n, addrs, states, all)

	// A macvlan on the bond is another MAC address of it, as VRRP uses it.
	labtest.IP(t, n["router"], "link add link bond0 name vr0 address 02:00:00:00:00:99 type macvlan mode bridge", "link set vr0 up")
	labtest.IP(t, n["server"], "neigh add 10.2.0.77 lladdr 02:00:00:00:00:99 dev bond0", "route replace 10.1.0.0/24 via 10.2.0.77")
	labtest.Eventually(t, 10*time.Second, "the macvlan is an address of the bond", func() bool {
		return strings.Contains(router.Out.String(), `msg="port MAC added, that of a macvlan interface" port=bond0 mac=02:00:00:00:00:99`)
	})
	all("by a macvlan")
	labtest.IP(t, n["server"], "route replace 10.1.0.0/24 via 10.2.0.1")

	// A reload changes the bond's settings, and a capture of a member names the bond.
	write("interface: bond0, reverse_path: strict")
	run := func(args ...string) (string, error) {
		return n["router"].Run(program, append(args, "--socket", router.Socket)...)
	}
	if out, err := run("reload"); err != nil || !strings.Contains(out, "ports.bond0") || strings.Contains(out, "wan0") {
		t.Errorf("reload: %v\n%s", err, out)
	}
	labtest.Eventually(t, 10*time.Second, "the bond has a strict check", func() bool {
		return strings.Contains(router.Out.String(), `msg="reverse path check changed" port=bond0 ipv4=strict ipv6=strict`)
	})
	all("with a strict check")
	write("interface: wan0")
	if out, err := run("reload"); err == nil || !strings.Contains(out, "use bond0 as the port") {
		t.Errorf("a reload with a member: %v\n%s", err, out)
	}
	if out, err := run("capture", "--port", "wan0", "--count", "1", "-w", "/dev/null"); err == nil || !strings.Contains(out, "member of bond bond0") {
		t.Errorf("a capture of a member: %v\n%s", err, out)
	}
	if out, err := run("trace", "--port", "bond0", "--count", "1", "--duration", "1s"); err != nil {
		t.Errorf("a trace of the bond: %v\n%s", err, out)
	}

	// The bond is replaced by another with its name.
	labtest.IP(t, n["router"], "link del bond0", "link add bond0 type bond mode active-backup miimon 100",
		"link set wan0 down", "link set wan0 master bond0", "link set wan1 down", "link set wan1 master bond0",
		"link set bond0 mtu 1504 up", "addr add 10.2.0.1/24 dev bond0", "addr add fd02::1/64 dev bond0 nodad")
	labtest.IP(t, n["server"], "link set wan1 down") // its bond would send by both members
	addrs = addrs[:2]
	reaches(t, n, addrs...)
	all("by another bond")
	account, text := router.Stop(), router.Out.String()
	if account.Arrived != account.Linux+account.Lost+account.Received || account.Received != account.Transmitted+account.Dropped || account.Lost != 0 {
		t.Errorf("the router's account: %+v\n%s", account, text)
	}
}
