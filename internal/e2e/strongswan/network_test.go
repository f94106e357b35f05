package strongswan

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// network is a tunnel between two gateways. The first is warproute, with SAs from the XFRM of a
// Linux that does not forward; the second is Linux.
type network struct {
	t                    *testing.T
	client, wire, server *lab.Namespace
	a, b                 *gateway
	program              string
	*labtest.Router
	start    time.Time
	patience time.Duration // limit of eventually; 0 for 15 s
}

// family is an address family of the hosts.
type family struct {
	name           string
	client, server netip.Prefix // addresses with the lengths of their networks
}

var families = []*family{
	{"IPv4", netip.MustParsePrefix("10.1.0.2/24"), netip.MustParsePrefix("10.2.0.2/24")},
	{"IPv6", netip.MustParsePrefix("fd01::2/64"), netip.MustParsePrefix("fd02::2/64")},
}

func newNetwork(t *testing.T, program string) *network {
	t.Helper()
	n := &network{t: t, start: time.Now(), program: program}
	made, err := lab.Build(lab.VethOptions{}, `
client eth0 10.1.0.2/24 fd01::2/64 -- a lan0 10.1.0.1/24 fd01::1/64
a wan0 192.0.2.1/24 2001:db8::1/64 -- wire near
b wan0 192.0.2.2/24 2001:db8::2/64 -- wire far
server eth0 10.2.0.2/24 fd02::2/64 -- b lan0 10.2.0.1/24 fd02::1/64
client route 10.2.0.0/24 10.1.0.1
client route fd02::/64 fd01::1
server route 10.1.0.0/24 10.2.0.1
server route fd01::/64 fd02::1
b sysctl net.ipv4.ip_forward 1
b sysctl net.ipv6.conf.all.forwarding 1
`+plaintextRoutes)
	n.must(err)
	t.Cleanup(made.Close)
	n.client, n.wire, n.server = made["client"], made["wire"], made["server"]
	n.a = &gateway{made["a"], t, t.TempDir(), "192.0.2.1", "192.0.2.2"}
	n.b = &gateway{made["b"], t, t.TempDir(), "192.0.2.2", "192.0.2.1"}
	n.bridge()
	limits := fmt.Sprintf("rekey_packets = %d\n\t\trand_packets = 0\n\t\tlife_packets = %d", rekeyPackets, 1000*rekeyPackets)
	n.a.startCharon("10.1.0.0/24, fd01::/64", "10.2.0.0/24, fd02::/64", limits)
	n.b.startCharon("10.2.0.0/24, fd02::/64", "10.1.0.0/24, fd01::/64", "")
	n.startRouter()
	for _, g := range []*gateway{n.a, n.b} {
		g.load("swanctl.conf")
	}
	return n
}

// plaintextRoutes lead to the other side without IPsec, so that only policies keep packets off them.
const plaintextRoutes = `
a route 10.2.0.0/24 192.0.2.2
a route fd02::/64 2001:db8::2
b route 10.1.0.0/24 192.0.2.1
b route fd01::/64 2001:db8::1`

// rekeyPackets is the number of packets after which the first gateway's key daemon rekeys.
const rekeyPackets = 800

// bridge joins the two ends of the wire.
func (n *network) bridge() {
	labtest.IP(n.t, n.wire, "link add br0 type bridge mcast_snooping 0", "link set br0 up addrgenmode none",
		"link set near master br0 addrgenmode none", "link set far master br0 addrgenmode none")
	n.must(n.wire.Sysctl("net.ipv6.conf.all.disable_ipv6", "1"))
}

func (n *network) must(err error) {
	n.t.Helper()
	require.NoError(n.t, err)
}

// startRouter starts warproute in the first gateway.
func (n *network) startRouter() {
	n.t.Helper()
	file := filepath.Join(n.a.dir, "warproute.yaml")
	n.must(os.WriteFile(file, []byte("ports: [{interface: lan0}, {interface: wan0}]\nengine: cpu\nipsec: {source: xfrm}\n"), 0o600))
	n.Router = labtest.Start(n.t, n.a.Namespace, n.program, nil, "--config", file, "--metrics", "none")
}

// answered waits until the server answers. Packets without a tunnel are dropped and trigger one.
func (n *network) answered(what string) {
	n.t.Helper()
	n.eventually(what, func() error {
		_, err := lab.Ping(n.client, families[0].server.Addr(), lab.PingOptions{Count: 1, Timeout: 200 * time.Millisecond})
		return err
	})
}

// refusals logs the drops of both gateways.
func (n *network) refusals() {
	n.t.Helper()
	n.t.Logf("the router's drops:\n%s", labtest.Run(n.t, n.a.Namespace, n.program, "show", "drops", "--socket", n.Socket))
	n.t.Logf("the peer's:\n%s", labtest.Run(n.t, n.b.Namespace, "cat", "/proc/net/xfrm_stat"))
}

// eventually waits until a check succeeds.
func (n *network) eventually(what string, check func() error) {
	n.t.Helper()
	for end := time.Now().Add(cmp.Or(n.patience, 15*time.Second)); ; time.Sleep(100 * time.Millisecond) {
		err := check()
		if err == nil {
			n.t.Logf("after %v: %s", time.Since(n.start).Round(10*time.Millisecond), what)
			return
		}
		if time.Now().After(end) {
			n.t.Fatalf("%s: %v", what, err)
		}
	}
}
