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
	"github.com/warproute/warproute/ipsec/suite"
)

func pair(a, b string) [2]netip.Prefix {
	return [2]netip.Prefix{netip.MustParsePrefix(a), netip.MustParsePrefix(b)}
}

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
	far := n["peer"]
	must(t, g.client, "ip", "route", "add", "local", "10.1.0.0/16", "dev", "lo")
	must(t, g.client, "ip", "-6", "route", "add", "local", "fd01::/64", "dev", "lo")
	var err error
	c := peer.Config{Namespace: far, Link: "peer0"}
	for ipv6, h := range hosts {
		c.Addresses = append(c.Addresses, outers[ipv6][1])
		c.Inner = append(c.Inner, h[1])
		c.Routes = append(c.Routes, peer.Route{Dst: h[0].Masked(), Via: outers[ipv6][0].Addr(), Source: h[1].Addr()})
	}
	g.peer, err = peer.Start(c)
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

// nth returns the nth address of a prefix.
func nth(p netip.Prefix, n int) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	b[len(b)-2], b[len(b)-1] = byte(n>>8), byte(n)
	a, _ := netip.AddrFromSlice(b)
	return a
}

func host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// tunnels returns one tunnel per combination of suite, mode, families, ESN and UDP, each between
// its own two addresses.
func tunnels() (all []tunnel) {
	shapes := []struct {
		mode         peer.Mode
		inner, outer bool // of IPv6
	}{
		{peer.Tunnel, false, false}, {peer.Tunnel, true, false}, {peer.Tunnel, false, true}, {peer.Tunnel, true, true},
		{peer.Transport, false, false}, {peer.Transport, true, true},
	}
	family := map[bool]string{false: "4", true: "6"}
	for i := range 4 * len(shapes) * len(suite.All) {
		s, shape := &suite.All[i%len(suite.All)], shapes[i/len(suite.All)%len(shapes)]
		variant := i / len(suite.All) / len(shapes)
		t := tunnel{client: nth(hosts[shape.inner][0], 100+i), peer: nth(hosts[shape.inner][1], 100+i)}
		t.pair = peer.Pair{
			Suite: s, Mode: shape.mode, ESN: variant&1 != 0, UDP: variant&2 != 0,
			In: peer.RandomSA(s, uint32(0x1000+i)), Out: peer.RandomSA(s, uint32(0x2000+i)),
			Local: outers[shape.outer][1].Addr(), Remote: outers[shape.outer][0].Addr(), LocalNet: host(t.peer), RemoteNet: host(t.client),
		}
		if shape.mode == peer.Transport {
			t.pair.Local, t.pair.Remote = t.peer, t.client
		}
		t.name = fmt.Sprintf("%s, %s %s in %s, ESN %v, UDP %v", s.Name, shape.mode, family[shape.inner], family[shape.outer], t.pair.ESN, t.pair.UDP)
		all = append(all, t)
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
