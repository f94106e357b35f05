package stock

import (
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

// A bond with two members is a port of the router, and so are VLANs on it.
func TestBondsAsPorts(t *testing.T) {
	guest.InVM(t, 280*time.Second, []string{"veth", "8021q", "bonding"}, func(t *testing.T, program string) {
		for _, mode := range []string{"active-backup", "balance-xor", "802.3ad"} {
			t.Run(mode, func(t *testing.T) { testBond(t, program, mode) })
		}
	})
}

// newBondNetwork has 10.1.0.0/24 between the client and the router, and between bonds of router and server with two
// links 10.2.0.0/24, and in VLAN 9 10.3.0.0/24.
func newBondNetwork(t *testing.T, mode string) lab.Network {
	t.Helper()
	n, err := lab.Build(lab.VethOptions{}, `
client lan0 10.1.0.2/24 -- router lan0 10.1.0.1/24
router wan0 -- server wan0
router wan1 -- server wan1`)
	require.NoError(t, err)
	t.Cleanup(n.Close)
	for _, end := range []struct{ ns, link string }{{"client", "lan0"}, {"router", "wan0"}, {"router", "wan1"}, {"server", "wan0"}, {"server", "wan1"}} {
		labtest.Run(t, n[end.ns], "ethtool", "-K", end.link, "txvlan", "off", "tx-vlan-stag-hw-insert", "off", "tso", "off", "gso", "off")
	}
	options := map[string]string{"active-backup": "primary wan0", "balance-xor": "xmit_hash_policy layer3+4", "802.3ad": "lacp_rate fast xmit_hash_policy layer3+4"}[mode]
	for i, ns := range []string{"router", "server"} {
		labtest.IP(t, n[ns], "link add bond0 type bond mode "+mode+" miimon 100")
		for _, member := range []string{"wan0", "wan1"} {
			labtest.IP(t, n[ns], "link set "+member+" down", "link set "+member+" mtu 1504", "link set "+member+" master bond0")
		}
		labtest.IP(t, n[ns], "link set bond0 type bond "+options, "link set bond0 mtu 1504 up",
			fmt.Sprintf("addr add 10.2.0.%d/24 dev bond0", i+1), fmt.Sprintf("addr add fd02::%d/64 dev bond0 nodad", i+1),
			"link add link bond0 name bond0.9 type vlan id 9", "link set bond0.9 mtu 1500 up",
			fmt.Sprintf("addr add 10.3.0.%d/24 dev bond0.9", i+1), fmt.Sprintf("addr add fd03::%d/64 dev bond0.9 nodad", i+1))
	}
	labtest.IP(t, n["client"], "addr add fd01::2/64 dev lan0 nodad", "route add 10.0.0.0/8 via 10.1.0.1", "route add fd00::/8 via fd01::1")
	labtest.IP(t, n["router"], "addr add fd01::1/64 dev lan0 nodad")
	labtest.IP(t, n["server"], "route add 10.1.0.0/24 via 10.2.0.1", "route add fd01::/64 via fd02::1",
		"rule add from 10.3.0.2 lookup 100", "route add 10.1.0.0/24 via 10.3.0.1 table 100", "-6 rule add from fd03::2 lookup 100", "route add fd01::/64 via fd03::1 table 100")
	return n
}

var bondProbes = []probe{
	{"10.2.0.2", 0, 0}, {"fd02::2", 0, 0}, {"10.3.0.2", 0, 0}, {"fd03::2", 0, 0}, {"10.3.0.2", 1472, 0}, {"fd03::2", 1452, 0},
	{"10.2.0.2", 0, 1}, {"fd02::2", 0, 1}, {"10.3.0.2", 0, 1}, {"fd03::2", 0, 1},
	{"10.2.0.2", 1472, 0}, {"fd02::2", 1452, 0}, // too big
	{"fd99::1", 0, 0}, {"10.1.0.1", 0, 0}, {"10.2.0.1", 0, 0}, {"fd02::1", 0, 0},
	{"10.2.0.77", 0, 0}, // no such host
}

func testBond(t *testing.T, program, mode string) {
	n := newBondNetwork(t, mode)
	router := labtest.Start(t, n["router"], program, nil, "--port", "lan0", "--port", "bond0", "--engine", "cpu", "--metrics", "none")
	reaches(t, n, "10.2.0.2", "fd02::2", "10.3.0.2", "fd03::2")
	for _, way := range []struct{ from, to, addr string }{{"client", "server", "10.2.0.2"}, {"server", "client", "10.1.0.2"}, {"client", "server", "10.3.0.2"}} {
		if _, err := lab.Transfer(n[way.from], n[way.to], netip.MustParseAddr(way.addr), 1<<17, 10*time.Second); err != nil {
			t.Errorf("TCP to %s: %v", way.addr, err)
		}
	}
	testPulledMember(t, n, mode)

	labtest.IP(t, n["router"], "link set bond0 mtu 1400")
	ours := outcomes(n, bondProbes)
	checkBondPorts(t, router, mode)
	account, text := router.Stop(), router.Out.String()
	if account.Arrived != account.Linux+account.Lost+account.Received || account.Received != account.Transmitted+account.Dropped || account.Lost != 0 {
		t.Errorf("the router's account: %+v\n%s", account, text)
	}

	// Linux's forwarding, without the router, has the same outcomes.
	labtest.Run(t, n["router"], "sysctl", "-qw", "net.ipv4.conf.all.forwarding=1", "net.ipv6.conf.all.forwarding=1", "net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0")
	labtest.IP(t, n["client"], "route flush cache", "-6 route flush cache")
	if linux := outcomes(n, bondProbes); !slices.Equal(ours, linux) {
		t.Errorf("outcomes of the router:\n%s\nof Linux:\n%s", strings.Join(ours, "\n"), strings.Join(linux, "\n"))
	}
}

// checkBondPorts checks what the router reports about its ports.
func checkBondPorts(t *testing.T, router *labtest.Router, mode string) {
	t.Helper()
	var ports []status.Port
	require.NoError(t, router.Get("/ports", &ports))
	byName := map[string]status.Port{}
	for _, p := range ports {
		byName[p.Name] = p
	}
	bond, vlan, a, b := byName["bond0"], byName["bond0.9"], byName["wan0"], byName["wan1"]
	if !bond.Up || bond.MTU != 1400 || len(bond.Members) != 2 || vlan.Parent != "bond0" || vlan.VLAN != "802.1Q 9" || a.Bond != "bond0" || b.Bond != "bond0" {
		t.Errorf("ports %+v", ports)
	}
	if a.RxPackets+b.RxPackets != bond.RxPackets || a.TxPackets+b.TxPackets != bond.TxPackets || bond.TxPackets <= vlan.TxPackets || vlan.RxPackets == 0 {
		t.Errorf("members received %d+%d and sent %d+%d packets, the bond %d and %d, its VLAN %d and %d", a.RxPackets, b.RxPackets, a.TxPackets, b.TxPackets,
			bond.RxPackets, bond.TxPackets, vlan.RxPackets, vlan.TxPackets)
	}
	active := 0
	for _, m := range bond.Members {
		if m.State == status.MemberActive {
			active++
		}
	}
	if want := map[bool]int{true: 1, false: 2}[mode == "active-backup"]; active != want {
		t.Errorf("%d active members, want %d: %+v", active, want, bond.Members)
	}
}
