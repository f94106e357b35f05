package stock

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// customers is the router with three VRFs of docs/routing.md, with its commands and its configuration of FRR. A customer
// has a LAN and a Linux router with BIRD in its VLAN of the bond. All customers have the same networks:
//
//	red-lan   10.2.0.2 ── eth3 ─┐ router ┌─ bond0.10 ── red    10.1.0.0/24, 198.51.100.0/24  BGP
//	blue-lan  10.2.0.2 ── eth4 ─┤        ├─ bond0.20 ── blue   10.1.0.0/24                   BGP
//	green-lan 10.2.0.2 ── eth5 ─┘        └─ bond0.30 ── green  10.1.0.0/24, 203.0.113.0/24   OSPF
//
// Only red and green leak: 198.51.100.0/24 to green, and 203.0.113.0/24 to red.
type customers struct {
	lab.Network
	t *testing.T
}

const routingDocument = "../../../docs/routing.md"

// names are the VRFs, with table and VLAN 10, 20 and 30.
var names = []string{"red", "blue", "green"}

func newCustomers(t *testing.T) customers {
	t.Helper()
	n, err := lab.Build(lab.VethOptions{}, `
red-lan eth0 10.2.0.2/24 -- router eth3
blue-lan eth0 10.2.0.2/24 -- router eth4
green-lan eth0 10.2.0.2/24 -- router eth5
red-lan route default 10.2.0.1
blue-lan route default 10.2.0.1
green-lan route default 10.2.0.1
router eth1 -- wire eth1
router eth2 -- wire eth2
red sysctl net.ipv4.ip_forward 0
blue sysctl net.ipv4.ip_forward 0
green sysctl net.ipv4.ip_forward 0`)
	require.NoError(t, err)
	t.Cleanup(n.Close)
	c := customers{n, t}
	for _, ns := range []string{"router", "wire"} {
		for _, link := range []string{"eth1", "eth2"} { // a veth keeps tags of VLANs beside the frames unless this is off
			labtest.Run(t, n[ns], "ethtool", "-K", link, "txvlan", "off", "tx-vlan-stag-hw-insert", "off", "tso", "off", "gso", "off")
		}
	}
	labtest.IP(t, n["wire"], "link add bond0 type bond mode balance-xor miimon 100 xmit_hash_policy layer3+4",
		"link set eth1 down", "link set eth1 master bond0", "link set eth2 down", "link set eth2 master bond0", "link set bond0 up")
	for i, name := range names {
		vlan := fmt.Sprintf("bond0.%d", 10*(i+1))
		labtest.IP(t, n["wire"], fmt.Sprintf("link add link bond0 name %s type vlan id %d", vlan, 10*(i+1)))
		require.NoError(t, n["wire"].Move(vlan, n[name]))
		labtest.IP(t, n[name], "link set "+vlan+" up", fmt.Sprintf("addr add 10.0.%d.2/24 dev %s", 10*(i+1), vlan), "addr add 10.1.0.2/24 dev lo")
	}
	labtest.IP(t, n["red"], "addr add 198.51.100.2/24 dev lo")
	labtest.IP(t, n["green"], "addr add 203.0.113.2/24 dev lo")
	labtest.Run(t, n["router"], "sh", "-e", "-c", labtest.Block(t, routingDocument, "customer red 10 eth3"))
	c.startBIRD("red", bgpOf(10, 64501), "198.51.100.0/24")
	c.startBIRD("blue", bgpOf(20, 64502))
	c.startBIRD("green", `protocol ospf v2 { ipv4 { import all; export where source = RTS_STATIC; };
	area 0 { interface "bond0.30" { type ptp; hello 1; dead 10; }; }; }`, "203.0.113.0/24")
	return c
}

// bgpOf returns the session of a customer with the router.
func bgpOf(vlan, as int) string {
	return fmt.Sprintf(`protocol bgp { local 10.0.%[1]d.2 as %[2]d; neighbor 10.0.%[1]d.1 as 64500; hold time 9; keepalive time 3; connect retry time 1; connect delay time 1; error wait time 1, 2;
	ipv4 { import all; export where source = RTS_STATIC; }; }`, vlan, as)
}

// startBIRD starts the router of a customer, which announces 10.1.0.0/24 and further networks.
func (c customers) startBIRD(name, protocol string, networks ...string) {
	c.t.Helper()
	dir := c.t.TempDir()
	config := "log stderr all;\nrouter id 10.1.0.2;\nprotocol device { scan time 1; }\nprotocol kernel { ipv4 { import none; export where source != RTS_STATIC; }; }\nprotocol static { ipv4;"
	for _, network := range append(networks, "10.1.0.0/24") {
		config += " route " + network + " blackhole;"
	}
	config += " }\n" + protocol + "\n"
	require.NoError(c.t, os.WriteFile(filepath.Join(dir, "bird.conf"), []byte(config), 0o600))
	c.start(name, "bird", "-f", "-c", filepath.Join(dir, "bird.conf"), "-s", filepath.Join(dir, "bird.ctl"))
}

// startFRR starts FRR's daemons in the router and loads the documented configuration.
func (c customers) startFRR() {
	c.t.Helper()
	dir, err := os.MkdirTemp("", "frr") // unlike that of TempDir, user frr can enter it
	require.NoError(c.t, err)
	u, err := user.Lookup("frr")
	require.NoError(c.t, err)
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	empty, config := filepath.Join(dir, "empty.conf"), filepath.Join(dir, "frr.conf")
	require.NoError(c.t, os.WriteFile(empty, nil, 0o644))
	require.NoError(c.t, os.WriteFile(config, []byte(labtest.Block(c.t, routingDocument, "router ospf vrf green")), 0o644))
	require.NoError(c.t, os.Chmod(dir, 0o755))
	require.NoError(c.t, os.Chown(dir, uid, gid))
	for _, name := range []string{"zebra", "staticd", "bgpd", "ospfd"} {
		c.start("router", "/usr/lib/frr/"+name, "-f", empty, "-i", filepath.Join(dir, name+".pid"), "-z", filepath.Join(dir, "zserv"), "--vty_socket", dir, "-P", "0", "--log", "stdout", "--log-level", "warnings")
		labtest.Eventually(c.t, 20*time.Second, name+" serves", func() bool {
			_, err := os.Stat(filepath.Join(dir, name+".vty"))
			return err == nil
		})
	}
	c.t.Cleanup(func() {
		if c.t.Failed() {
			out, _ := c.Network["router"].Run("vtysh", "--vty_socket", dir, "-c", "show ip route vrf all")
			c.t.Logf("FRR's routes:\n%s", out)
		}
	})
	if out := labtest.Run(c.t, c.Network["router"], "vtysh", "--vty_socket", dir, "-f", config); strings.Contains(out, "%") {
		c.t.Errorf("FRR refuses the configuration of docs/routing.md:\n%s", out)
	}
}

func (c customers) start(ns, name string, args ...string) {
	c.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	p, err := c.Network[ns].Start(cmd)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { p.Stop(5 * time.Second) })
}

// reached is pings that are answered when all routes have converged: from, source, destination.
var reached = [][3]string{
	{"red-lan", "10.2.0.2", "10.1.0.2"}, {"blue-lan", "10.2.0.2", "10.1.0.2"}, {"green-lan", "10.2.0.2", "10.1.0.2"},
	{"red", "198.51.100.2", "203.0.113.2"}, {"green", "203.0.113.2", "198.51.100.2"},
}

// refused is pings that are not.
var refused = [][3]string{{"blue-lan", "10.2.0.2", "203.0.113.2"}, {"blue-lan", "10.2.0.2", "198.51.100.2"}, {"red-lan", "10.2.0.2", "192.0.2.1"}}

// converge waits until pings are answered.
func (c customers) converge(when string) {
	c.t.Helper()
	start := time.Now()
	for _, p := range reached {
		labtest.Eventually(c.t, 25*time.Second, fmt.Sprintf("%s: a ping from %s to %s is answered", when, p[0], p[2]), func() bool {
			r, err := c.ping(p, 300*time.Millisecond)
			if err != nil {
				time.Sleep(100 * time.Millisecond)
			}
			return r.Received > 0
		})
	}
	c.t.Logf("%s: converged after %v", when, time.Since(start).Round(10*time.Millisecond))
}

func (c customers) ping(p [3]string, timeout time.Duration) (lab.PingResult, error) {
	return lab.Ping(c.Network[p[0]], netip.MustParseAddr(p[2]), lab.PingOptions{Source: netip.MustParseAddr(p[1]), Count: 1, Timeout: timeout})
}
