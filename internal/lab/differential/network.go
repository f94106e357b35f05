package differential

import (
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// The network of the test exists twice: with Linux and with warproute as the router. Packet sockets of the
// test on each side of the router act as all hosts.
//
//	lan  10.7.0.2 to .9, fd07::2 to ::9; behind .2, ::2:  10.32/11, fd32::/32
//	     10.7.0.1/24, fd07::1/64
//	wan  10.8.0.2 to .9, fd08::2 to ::9; behind .2, ::2:  10.64/11, fd33::/32, and 10.20/16, fd20::/32;
//	     10.26/15, fd26::/31 with MTUs of the routes
//	     10.8.0.1/24, fd08::1/64
//	nar  10.9.0.2 to .9, fd09::2 to ::9; behind .2, ::2:  10.96/11, fd34::/32, and 10.21/16, fd21::/32
//	     10.9.0.1/24, fd09::1/64, with an MTU of 1300
//
// sideRoutes has routes of other types and an IPv4 route via IPv6. There is no default route. Ports says
// which interfaces of the router lan, wan and nar are.
var sides = [...]string{"lan", "wan", "nar"}

const (
	lanSide, wanSide, narSide = 0, 1, 2
	underlay                  = 3 // number of the link below tunnels, for its MAC addresses
	narMTU                    = 1300
)

// Sides is the number of sides.
const Sides = len(sides)

var sideRoutes = []string{
	"10.32.0.0/11 via 10.7.0.2", "fd32::/32 via fd07::2", "10.64.0.0/11 via 10.8.0.2", "fd33::/32 via fd08::2",
	"10.96.0.0/11 via 10.9.0.2", "fd34::/32 via fd09::2", "10.20.0.0/16 via 10.8.0.2", "fd20::/32 via fd08::2",
	"10.26.0.0/16 via 10.8.0.2 mtu 1300", "fd26::/32 via fd08::2 mtu 1310", "10.27.0.0/16 via 10.8.0.2 mtu lock 1400", "fd27::/32 via fd08::2 mtu lock 1310",
	"10.21.0.0/16 via 10.9.0.2", "fd21::/32 via fd09::2", "10.25.0.0/16 via inet6 fd08::2",
	"blackhole 10.22.0.0/16", "blackhole fd22::/32", "unreachable 10.23.0.0/16", "unreachable fd23::/32",
	"prohibit 10.24.0.0/16", "prohibit fd24::/32", "blackhole 10.20.5.0/24", "blackhole fd20:5::/32",
}

func hostMAC(side int) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, byte(side), 2} }

func routerMAC(side int) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, byte(side), 1} }

// side4 and side6 return an address of a side's network; host 1 is the router.
func side4(side, host int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(7 + side), 0, byte(host)})
}

func side6(side, host int) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfd, byte(7 + side), 15: byte(host)})
}

// Contender is one of the two routers, with sockets on each side.
type Contender struct {
	Router *lab.Namespace

	t       *testing.T
	name    string
	hosts   *lab.Namespace
	ports   Ports
	sockets []socket
	sides   [Sides]attachment
	bonds   [Sides]bond

	mu       sync.Mutex
	received []arrived
	marks    map[uint32]bool
	used     uint32 // marks
}

// arrived is a frame from the router.
type arrived struct {
	emitted
	socket int
}

// settings of both routers: no limits of errors, no errors about fragments for the router itself.
var settings = map[string]string{
	"net.ipv4.icmp_ratemask": "0", "net.ipv4.icmp_msgs_per_sec": "1000000", "net.ipv4.icmp_msgs_burst": "1000000", "net.ipv6.icmp.ratelimit": "0",
	"net.ipv4.conf.all.rp_filter": "0", "net.ipv4.conf.default.rp_filter": "0",
	"net.ipv4.conf.all.send_redirects": "0", "net.ipv4.conf.default.send_redirects": "0",
	"net.ipv4.ipfrag_time": "86400", "net.ipv6.ip6frag_time": "86400", // longer than any test
	"net.ipv6.auto_flowlabels": "0", "net.ipv6.conf.default.router_solicitations": "0",
	"net.ipv4.ip_forward": "0", "net.ipv6.conf.all.forwarding": "0",
}

// newContender builds the network without a router.
func newContender(t *testing.T, name string, ports Ports) *Contender {
	t.Helper()
	c := &Contender{t: t, name: name, ports: ports, marks: map[uint32]bool{}}
	n, err := lab.Build(lab.VethOptions{}, "router sysctl net.ipv4.ip_forward 0\nhosts sysctl net.ipv4.ip_forward 0")
	require.NoError(t, err)
	t.Cleanup(n.Close)
	c.Router, c.hosts = n["router"], n["hosts"]
	require.NoError(t, c.hosts.Sysctl("net.ipv6.conf.default.disable_ipv6", "1")) // the test's sockets are the hosts
	for name, value := range settings {
		err := c.Router.Sysctl(name, value)
		if errors.Is(err, fs.ErrNotExist) { // a setting of the whole system in old kernels, such as those of guests
			err = os.WriteFile("/proc/sys/"+strings.ReplaceAll(name, ".", "/"), []byte(value), 0)
		}
		require.NoError(t, err)
	}
	ports.build(c)
	c.addAddresses()
	for i, s := range sides {
		if !c.sides[i].pointToPoint {
			c.addNeighbors(s, i)
		}
	}
	c.ip("link set nar mtu 1300")
	routes := sideRoutes
	if ports.routes != nil {
		routes = ports.routes(c)
	}
	commands := make([]string, len(routes))
	for i, r := range routes {
		commands[i] = "route add " + r
	}
	c.ip(commands...)
	return c
}

// addNeighbors makes all hosts of a side neighbors on a link.
func (c *Contender) addNeighbors(link string, side int) {
	c.t.Helper()
	for host := 2; host < 10; host++ {
		require.NoError(c.t, c.Router.AddNeighbor(link, side4(side, host), hostMAC(side)))
		require.NoError(c.t, c.Router.AddNeighbor(link, side6(side, host), hostMAC(side)))
	}
	require.NoError(c.t, c.Router.AddNeighbor(link, netip.MustParseAddr("fe80::2"), hostMAC(side)))
}

// ip runs `ip` commands in the router.
func (c *Contender) ip(commands ...string) {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), "commands")
	require.NoError(c.t, os.WriteFile(file, []byte(strings.Join(commands, "\n")+"\n"), 0o600))
	labtest.Run(c.t, c.Router, "ip", "-batch", file)
}
