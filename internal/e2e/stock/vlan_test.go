package stock

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/guest"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// VLANs of a router's ports, with one tag and with two, are ports. Ports may be in VRFs.
func TestVLANsOfPorts(t *testing.T) {
	guest.InVM(t, 240*time.Second, []string{"veth", "8021q", "vrf"}, func(t *testing.T, program string) {
		t.Run("VLANs", func(t *testing.T) { testVLANs(t, program) })
		t.Run("VRFs", func(t *testing.T) { testVRFs(t, program) })
	})
}

// newVLANNetwork has 10.1.0.0/24 in VLAN 5 of the link to the client, 10.2.0.0/24 in VLAN 7 and
// 10.3.0.0/24 in VLAN 9 of service VLAN 8 of the link to the server. The router has the last address of
// each network but the one in VLAN 9. With txvlan "on", senders keep the outer tag beside the frames.
func newVLANNetwork(t *testing.T, txvlan string) lab.Network {
	t.Helper()
	n, err := lab.Build(lab.VethOptions{}, `
client lan0 -- router lan0
router wan0 -- server wan0`)
	require.NoError(t, err)
	t.Cleanup(n.Close)
	for _, end := range []struct{ ns, link string }{{"client", "lan0"}, {"router", "lan0"}, {"router", "wan0"}, {"server", "wan0"}} {
		labtest.Run(t, n[end.ns], "ethtool", "-K", end.link, "txvlan", txvlan, "tx-vlan-stag-hw-insert", txvlan, "tso", "off", "gso", "off")
	}
	for _, ns := range []string{"router", "server"} { // room for the second tag
		labtest.IP(t, n[ns], "link set wan0 mtu 1504")
	}
	labtest.IP(t, n["client"], "link add link lan0 name lan0.5 type vlan id 5", "link set lan0.5 up",
		"addr add 10.1.0.2/24 dev lan0.5", "addr add fd01::2/64 dev lan0.5 nodad",
		"route add 10.0.0.0/8 via 10.1.0.1", "route add fd00::/8 via fd01::1")
	labtest.IP(t, n["server"], "link add link wan0 name wan0.7 type vlan id 7", "link set wan0.7 mtu 1500 up",
		"addr add 10.2.0.2/24 dev wan0.7", "addr add fd02::2/64 dev wan0.7 nodad", "route add 10.1.0.0/24 via 10.2.0.1", "route add fd01::/64 via fd02::1",
		"link add link wan0 name s8 type vlan proto 802.1ad id 8", "link set s8 up", "link add link s8 name s8.9 type vlan id 9", "link set s8.9 mtu 1500 up",
		"addr add 10.3.0.2/24 dev s8.9", "addr add fd03::2/64 dev s8.9 nodad")
	labtest.IP(t, n["router"], "link add link lan0 name lan0.5 type vlan id 5", "link set lan0.5 up", "addr add 10.1.0.1/24 dev lan0.5", "addr add fd01::1/64 dev lan0.5 nodad")
	addWAN(t, n["router"])
	return n
}

// addWAN creates VLAN 7 of the router.
func addWAN(t *testing.T, router *lab.Namespace) {
	t.Helper()
	labtest.IP(t, router, "link add link wan0 name wan0.7 type vlan id 7", "link set wan0.7 mtu 1500 up", "addr add 10.2.0.1/24 dev wan0.7", "addr add fd02::1/64 dev wan0.7 nodad")
}

// reaches waits until pings from the client are answered.
func reaches(t *testing.T, n lab.Network, addrs ...string) {
	t.Helper()
	for _, a := range addrs {
		labtest.Eventually(t, 10*time.Second, "pings pass to "+a, func() bool {
			r, _ := lab.Ping(n["client"], netip.MustParseAddr(a), lab.PingOptions{Count: 1, Timeout: 300 * time.Millisecond})
			return r.Received > 0
		})
	}
}

func testVLANs(t *testing.T, program string) {
	n := newVLANNetwork(t, "off")
	router := labtest.Start(t, n["router"], program, nil, "--port", "lan0", "--port", "wan0", "--engine", "cpu", "--metrics", "none")
	reaches(t, n, "10.2.0.2", "fd02::2")

	// While it runs, VLANs are added, with two tags, and replaced.
	labtest.IP(t, n["router"], "link add link wan0 name s8 type vlan proto 802.1ad id 8", "link set s8 up", "link add link s8 name s8.9 type vlan id 9", "link set s8.9 mtu 1500 up",
		"addr add 10.3.0.1/24 dev s8.9", "addr add fd03::1/64 dev s8.9 nodad")
	labtest.IP(t, n["server"], "route replace 10.1.0.0/24 via 10.3.0.1", "route replace fd01::/64 via fd03::1")
	reaches(t, n, "10.3.0.2", "fd03::2", "10.2.0.2", "fd02::2")
	if _, err := lab.Transfer(n["client"], n["server"], netip.MustParseAddr("10.3.0.2"), 1<<17, 10*time.Second); err != nil {
		t.Errorf("TCP in two tags: %v", err)
	}
	labtest.IP(t, n["router"], "link del wan0.7")
	addWAN(t, n["router"])
	labtest.IP(t, n["server"], "route replace 10.1.0.0/24 via 10.2.0.1", "route replace fd01::/64 via fd02::1")
	reaches(t, n, "10.2.0.2", "fd02::2")

	// ICMP errors come from the VLAN's address, and the TTL decreases: Linux does not forward here.
	for _, c := range []struct{ to, from string }{{"10.2.0.2", "10.1.0.1"}, {"fd02::2", "fd01::1"}} {
		_, err := lab.Ping(n["client"], netip.MustParseAddr(c.to), lab.PingOptions{Count: 1, TTL: 1, Timeout: time.Second})
		if err == nil || !strings.Contains(err.Error(), c.from) {
			t.Errorf("a ping with TTL 1: %v, want a time exceeded from %s", err, c.from)
		}
	}

	labtest.IP(t, n["router"], "link set wan0.7 mtu 1400")
	ours := outcomes(n, vlanProbes)
	var ports []status.Port
	require.NoError(t, router.Get("/ports", &ports))
	byName := map[string]status.Port{}
	for _, p := range ports {
		byName[p.Name] = p
	}
	for name, want := range map[string][2]string{"lan0": {}, "wan0": {}, "lan0.5": {"lan0", "802.1Q 5"}, "wan0.7": {"wan0", "802.1Q 7"}, "s8": {"wan0", "802.1ad 8"}, "s8.9": {"s8", "802.1Q 9"}} {
		p, ok := byName[name]
		if !ok || p.Parent != want[0] || p.VLAN != want[1] || !p.Up || name != "s8" && (p.RxPackets == 0 || p.TxPackets == 0) {
			t.Errorf("port %s: %+v", name, p)
		}
	}
	if log := router.Out.String(); !strings.Contains(log, "tags of VLANs may be lost") || !strings.Contains(byName["lan0"].LostTags, "the peer can strip VLAN tags") {
		t.Errorf("a kernel without metadata: neither the log nor the ports may lack the loss of stripped tags, %q in\n%s", byName["lan0"].LostTags, log)
	}
	if a, b := byName["wan0"], byName["wan0.7"]; a.RxPackets <= b.RxPackets {
		t.Errorf("the port received %d packets, its VLAN %d", a.RxPackets, b.RxPackets)
	}
	account, text := router.Stop(), router.Out.String()
	if account.Arrived != account.Linux+account.Lost+account.Received || account.Lost != 0 {
		t.Errorf("the router's account: %+v\n%s", account, text)
	}

	// Linux's forwarding, without the router, has the same outcomes.
	labtest.Run(t, n["router"], "sysctl", "-qw", "net.ipv4.conf.all.forwarding=1", "net.ipv6.conf.all.forwarding=1", "net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0")
	labtest.IP(t, n["client"], "route flush cache", "-6 route flush cache")
	if linux := outcomes(n, vlanProbes); !slices.Equal(ours, linux) {
		t.Errorf("outcomes of the router:\n%s\nof Linux:\n%s", strings.Join(ours, "\n"), strings.Join(linux, "\n"))
	}
}

// probe is a ping with a number of payload bytes and a TTL, 0 for the default.
type probe struct {
	to        string
	size, ttl int
}

var vlanProbes = []probe{
	{"10.2.0.2", 0, 0}, {"fd02::2", 0, 0}, {"10.3.0.2", 0, 0}, {"fd03::2", 0, 0}, {"10.3.0.2", 1472, 0}, {"fd03::2", 1452, 0}, // the largest packets of 1,500 bytes
	{"10.2.0.2", 0, 1}, {"fd02::2", 0, 1}, {"10.3.0.2", 0, 1}, {"fd03::2", 0, 1}, {"10.3.0.2", 0, 2}, {"fd03::2", 0, 2},
	{"10.2.0.2", 1472, 0}, {"fd02::2", 1452, 0}, // too big for VLAN 7
	{"fd99::1", 0, 0}, // no route; Linux limits the errors about IPv4 regardless of settings
	{"10.1.0.1", 0, 0}, {"fd01::1", 0, 0}, {"10.2.0.1", 0, 0},
	{"10.2.0.77", 0, 0}, // no such host
}

// outcomes describes the outcomes of pings from the client: replies, and ICMP errors with their sources.
func outcomes(n lab.Network, probes []probe) (all []string) {
	for _, c := range probes {
		_, err := lab.Ping(n["client"], netip.MustParseAddr(c.to), lab.PingOptions{Count: 1, Size: c.size, TTL: c.ttl, Timeout: 6 * time.Second})
		text := "a reply"
		if e, ok := errors.AsType[*lab.ICMPError](err); ok {
			text = e.Error()
		} else if err != nil {
			text = "no reply"
		}
		all = append(all, fmt.Sprintf("%s, %d bytes, TTL %d: %s", c.to, c.size, c.ttl, text))
	}
	return all
}
