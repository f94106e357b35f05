package stock

import (
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

// withMetadata is a directory of scripts/nics.sh, with a kernel whose veth reports stripped tags (Linux 6.8 or later).
const withMetadata = "../../../out/nics/7"

// Packets whose outer VLAN tag is stripped before XDP have the outcomes that they have in Linux, with one tag and with
// two, and nobody reports a loss.
func TestStrippedTagsEqualLinux(t *testing.T) {
	guest.VM{Kernel: withMetadata}.Test(t, 240*time.Second, []string{"veth", "8021q"}, testStrippedTags)
}

func testStrippedTags(t *testing.T, program string) {
	n := newVLANNetwork(t, "on")
	labtest.IP(t, n["router"], "link add link wan0 name s8 type vlan proto 802.1ad id 8", "link set s8 up", "link add link s8 name s8.9 type vlan id 9", "link set s8.9 mtu 1500 up",
		"addr add 10.3.0.1/24 dev s8.9", "addr add fd03::1/64 dev s8.9 nodad")
	router := labtest.Start(t, n["router"], program, nil, "--port", "lan0", "--port", "wan0", "--engine", "cpu", "--metrics", "none")
	reaches(t, n, "10.2.0.2", "fd02::2")
	labtest.IP(t, n["server"], "route replace 10.1.0.0/24 via 10.3.0.1", "route replace fd01::/64 via fd03::1")
	reaches(t, n, "10.3.0.2", "fd03::2", "10.2.0.2", "fd02::2")
	for _, way := range []struct{ from, to, addr string }{{"client", "server", "10.3.0.2"}, {"server", "client", "10.1.0.2"}} {
		if _, err := lab.Transfer(n[way.from], n[way.to], netip.MustParseAddr(way.addr), 1<<17, 10*time.Second); err != nil {
			t.Errorf("TCP to %s: %v", way.addr, err)
		}
	}
	ours := outcomes(n, strippedProbes)
	var ports []status.Port
	require.NoError(t, router.Get("/ports", &ports))
	for _, p := range ports {
		if p.LostTags != "" || p.Name != "s8" && (p.RxPackets == 0 || p.TxPackets == 0) {
			t.Errorf("port %s: %+v", p.Name, p)
		}
	}
	account, text := router.Stop(), router.Out.String()
	if account.Arrived != account.Linux+account.Lost+account.Received || account.Lost != 0 {
		t.Errorf("the router's account: %+v\n%s", account, text)
	}
	if strings.Contains(text, "tags of VLANs may be lost") {
		t.Errorf("the log reports a loss:\n%s", text)
	}
	labtest.Run(t, n["router"], "sysctl", "-qw", "net.ipv4.conf.all.forwarding=1", "net.ipv6.conf.all.forwarding=1", "net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0")
	if linux := outcomes(n, strippedProbes); !slices.Equal(ours, linux) {
		t.Errorf("outcomes of the router:\n%s\nof Linux:\n%s", strings.Join(ours, "\n"), strings.Join(linux, "\n"))
	}
}

var strippedProbes = []probe{
	{"10.2.0.2", 0, 0}, {"fd02::2", 0, 0}, {"10.3.0.2", 0, 0}, {"fd03::2", 0, 0}, {"10.3.0.2", 1472, 0}, {"fd03::2", 1452, 0}, // the largest packets of 1,500 bytes
	{"10.2.0.2", 0, 1}, {"fd02::2", 0, 1}, {"10.3.0.2", 0, 2}, {"fd03::2", 0, 2},
	{"10.1.0.1", 0, 0}, {"fd01::1", 0, 0}, {"10.2.0.1", 0, 0},
}
