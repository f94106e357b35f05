package e2e

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/echo"
	"github.com/warproute/warproute/internal/lab/peer"
	"github.com/warproute/warproute/internal/require"
)

// gateways is a client, the router, and another kernel with its own ESP.
type gateways struct {
	t              *testing.T
	client, router *lab.Namespace
	peer           *peer.Peer
}

func newGateways(t *testing.T) *gateways {
	t.Helper()
	n := build(t, lab.VethOptions{}, `
client client0 10.7.0.2/24 fd07::2/64 -- router lan0 10.7.0.1/24 fd07::1/64
router wan0 192.0.2.1/24 2001:db8::1/64 -- peer peer0
client route default 10.7.0.1
client route default fd07::1
client sysctl net.ipv6.ip_nonlocal_bind 1
router route 10.1.0.0/16 10.7.0.2
router route fd01::/64 fd07::2
router route 10.2.0.0/16 192.0.2.2
router route fd02::/64 2001:db8::2`)
	g := &gateways{t: t, client: n["client"], router: n["router"]}
	ip(t, g.client, "route add local 10.1.0.0/16 dev lo", "-6 route add local fd01::/64 dev lo")
	var err error
	g.peer, err = peer.Start(peer.Right.At(n["peer"], "peer0", peer.Left))
	require.NoError(t, err)
	t.Cleanup(func() { g.peer.Close() })
	return g
}

// tunnel is a pair of SAs for one flow, as the peer has them.
type tunnel struct {
	name         string
	pair         peer.Pair
	client, peer netip.Addr
}

func host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// tunnels returns a tunnel per combination of suite, mode, families, ESN and UDP.
func tunnels() (all []tunnel) {
	for _, c := range peer.Matrix(peer.Right, peer.Left) {
		all = append(all, tunnel{c.Name, c.Pair, c.Flow.To, c.Flow.From})
	}
	return all
}

// write appends the SAs and policies of a tunnel to the lists of a configuration. The peer's
// outbound SA is the router's inbound SA.
func (u *tunnel) write(sas, policies *strings.Builder, n int) {
	for _, d := range []struct {
		direction string
		sa        peer.SA
		src, dst  netip.Addr
		from, to  netip.Addr
	}{
		{"out", u.pair.In, u.pair.Remote, u.pair.Local, u.client, u.peer},
		{"in", u.pair.Out, u.pair.Local, u.pair.Remote, u.peer, u.client},
	} {
		name := fmt.Sprintf("%s-%d", d.direction, n)
		fmt.Fprintf(sas, "    - {name: %s, spi: %#x, direction: %s, mode: %s, src: \"%v\", dst: \"%v\", suite: %s, esn: %v", name, d.sa.SPI,
			d.direction, u.pair.Mode, d.src, d.dst, u.pair.Suite.Name, u.pair.ESN)
		if len(d.sa.Key) > 0 {
			fmt.Fprintf(sas, ", key: \"%x\"", d.sa.Key)
		}
		if len(d.sa.AuthKey) > 0 {
			fmt.Fprintf(sas, ", auth_key: \"%x\"", d.sa.AuthKey)
		}
		if u.pair.UDP {
			fmt.Fprintf(sas, ", encap: {sport: 4500, dport: 4500}")
		}
		sas.WriteString("}\n")
		fmt.Fprintf(policies, "    - {direction: %s, src: \"%v\", dst: \"%v\", action: protect, sa: %s}\n", d.direction, host(d.from), host(d.to), name)
	}
}

// configuration writes a configuration with tunnels and returns its path.
func (g *gateways) configuration(path string, tunnels ...tunnel) string {
	g.t.Helper()
	var sas, policies strings.Builder
	for i := range tunnels {
		tunnels[i].write(&sas, &policies, i)
	}
	text := fmt.Sprintf("ports: [{interface: lan0}, {interface: wan0}]\nmetrics: {listen: \"\"}\nipsec:\n  state: %s\n  sas:\n%s  policies:\n%s",
		filepath.Join(filepath.Dir(path), "state"), &sas, &policies)
	writeFile(g.t, path, text)
	return path
}

// exchange sends n bytes to the peer's echo service and compares the reply.
func (g *gateways) exchange(u *tunnel, n int) error {
	var conn net.Conn
	if err := g.client.Do(func() (err error) {
		d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(u.client, 0)), Timeout: 5 * time.Second}
		conn, err = d.Dial("tcp", netip.AddrPortFrom(u.peer, echo.Port).String())
		return err
	}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return echo.Exchange(ctx, conn, n)
}
