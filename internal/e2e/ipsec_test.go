package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/echo"
	"github.com/warproute/warproute/internal/lab/peer"
	"github.com/warproute/warproute/ipsec/suite"
)

// A host, the router, and another kernel with an ESP of its own:
//
//	10.1.0.0/16 ─┐ client        router         peer ┌─ 10.2.0.0/16
//	fd01::/64   ─┘ 10.7.0.2  10.7.0.1 192.0.2.1  192.0.2.2 └─ fd02::/64
//	                fd07::2   fd07::1 2001:db8::1  2001:db8::2
var (
	hosts  = map[bool][2]netip.Prefix{false: pair("10.1.0.1/16", "10.2.0.1/16"), true: pair("fd01::1/64", "fd02::1/64")}
	outers = map[bool][2]netip.Prefix{false: pair("192.0.2.1/24", "192.0.2.2/24"), true: pair("2001:db8::1/64", "2001:db8::2/64")}
)

func pair(a, b string) [2]netip.Prefix {
	return [2]netip.Prefix{netip.MustParsePrefix(a), netip.MustParsePrefix(b)}
}

// gateways is what that is made of.
type gateways struct {
	t              *testing.T
	client, router *lab.Namespace
	peer           *peer.Peer
}

func newGateways(t *testing.T) *gateways {
	t.Helper()
	g := &gateways{t: t}
	fatal := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	namespace := func(name string) *lab.Namespace { return newNamespace(t, name) }
	g.client, g.router = namespace("client"), namespace("router")
	far := namespace("peer")
	fatal(lab.Veth(lab.End{Namespace: g.client, Name: "client0"}, lab.End{Namespace: g.router, Name: "lan0"}, lab.VethOptions{}))
	fatal(lab.Veth(lab.End{Namespace: far, Name: "peer0"}, lab.End{Namespace: g.router, Name: "wan0"}, lab.VethOptions{}))
	for _, s := range []string{"net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"} {
		fatal(g.router.Sysctl(s, "0"))
	}
	for _, s := range [][]string{
		{"client", "addr", "add", "10.7.0.2/24", "dev", "client0"}, {"client", "addr", "add", "fd07::2/64", "dev", "client0", "nodad"},
		{"client", "route", "add", "local", "10.1.0.0/16", "dev", "lo"}, {"client", "-6", "route", "add", "local", "fd01::/64", "dev", "lo"},
		{"client", "route", "add", "default", "via", "10.7.0.1"}, {"client", "-6", "route", "add", "default", "via", "fd07::1"},
		{"router", "addr", "add", "10.7.0.1/24", "dev", "lan0"}, {"router", "addr", "add", "fd07::1/64", "dev", "lan0", "nodad"},
		{"router", "addr", "add", "192.0.2.1/24", "dev", "wan0"}, {"router", "addr", "add", "2001:db8::1/64", "dev", "wan0", "nodad"},
		{"router", "route", "add", "10.1.0.0/16", "via", "10.7.0.2"}, {"router", "-6", "route", "add", "fd01::/64", "via", "fd07::2"},
		{"router", "route", "add", "10.2.0.0/16", "via", "192.0.2.2"}, {"router", "-6", "route", "add", "fd02::/64", "via", "2001:db8::2"},
	} {
		ns := g.client
		if s[0] == "router" {
			ns = g.router
		}
		must(t, ns, "ip", s[1:]...)
	}
	fatal(g.client.Sysctl("net.ipv6.ip_nonlocal_bind", "1"))
	var err error
	c := peer.Config{Namespace: far, Link: "peer0"}
	for ipv6, h := range hosts {
		c.Addresses = append(c.Addresses, outers[ipv6][1])
		c.Inner = append(c.Inner, h[1])
		c.Routes = append(c.Routes, peer.Route{Dst: h[0].Masked(), Via: outers[ipv6][0].Addr(), Source: h[1].Addr()})
	}
	g.peer, err = peer.Start(c)
	fatal(err)
	t.Cleanup(func() { g.peer.Close() })
	return g
}

// tunnel is a pair of associations as the peer has them, for one flow.
type tunnel struct {
	name         string
	pair         peer.Pair
	client, peer netip.Addr
}

// nth is an address of a prefix.
func nth(p netip.Prefix, n int) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	b[len(b)-2], b[len(b)-1] = byte(n>>8), byte(n)
	a, _ := netip.AddrFromSlice(b)
	return a
}

func host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// tunnels are of every suite, mode, families, with and without ESN and UDP, each
// between two addresses of its own.
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

// sas appends the associations and policies of a tunnel to the two lists of a
// configuration; the peer's outbound one is our inbound one.
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

// configuration writes one with these tunnels, and returns its path.
func (g *gateways) configuration(path string, tunnels ...tunnel) string {
	g.t.Helper()
	var sas, policies strings.Builder
	for i := range tunnels {
		tunnels[i].write(&sas, &policies, i)
	}
	text := fmt.Sprintf("ports: [{interface: lan0}, {interface: wan0}]\nmetrics: {listen: \"\"}\nipsec:\n  state: %s\n  sas:\n%s  policies:\n%s",
		filepath.Join(filepath.Dir(path), "state"), &sas, &policies)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
	return path
}

// exchange sends n bytes to the peer's echo and compares what comes back.
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

// Linux's own ESP and ours understand each other: every suite, tunnels of all families
// and transport mode, with and without ESN and UDP, in both directions.
func TestESPWithLinux(t *testing.T) {
	g := newGateways(t)
	all := tunnels()
	var pairs []peer.Pair
	for _, u := range all {
		pairs = append(pairs, u.pair)
	}
	if err := g.peer.Configure(pairs...); err != nil {
		t.Fatal(err)
	}
	r := startRouter(t, g.router, "--config", g.configuration(filepath.Join(t.TempDir(), "warproute.yaml"), all...))
	before, err := g.peer.Stats()
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		u := &all[i]
		if t.Failed() {
			t.Fatalf("the router's drops: %s", must(t, g.router, program, "show", "drops", "--socket", r.socket))
		}
		sizes := []int{1, 56, 57 + i, 1300}
		if u.pair.UDP && u.pair.Local.Is6() {
			sizes[0] = 8 // Linux 6.1 drops ESP in UDP over IPv6 that is shorter than 40 bytes
		}
		if u.pair.Mode == peer.Tunnel { // some of these are too long for one packet, and become fragments
			sizes = append(sizes, 1400)
		}
		for _, size := range sizes {
			opts := lab.PingOptions{Source: u.client, Count: 1, Size: size, Timeout: 3 * time.Second}
			_, err := lab.Ping(g.client, u.peer, opts)
			var told *lab.ICMPError
			for try := 0; try < 3 && size > 1300 && errors.As(err, &told); try++ { // the client learns how much fits
				_, err = lab.Ping(g.client, u.peer, opts)
			}
			if err != nil {
				t.Errorf("%s: %d bytes: %v", u.name, size, err)
			}
		}
		if err := g.exchange(u, 20_000); err != nil {
			t.Errorf("%s: TCP: %v", u.name, err)
		}
	}
	after, err := g.peer.Stats()
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range after {
		if n != before[name] {
			t.Errorf("the peer counts %d of %s", n-before[name], name)
		}
	}
	var sas []status.SA
	if err := r.get("/sas", &sas); err != nil {
		t.Fatal(err)
	}
	if len(sas) != 2*len(all) {
		t.Errorf("%d associations, want %d", len(sas), 2*len(all))
	}
	for _, s := range sas {
		if s.Packets < 10 || s.Replays+s.Forgeries != 0 {
			t.Errorf("%+v", s)
		}
	}
}

// A reload changes the associations that differ and leaves the others alone, while
// packets flow; a configuration that is wrong changes nothing.
func TestReloadChangesAssociations(t *testing.T) {
	g := newGateways(t)
	all := tunnels()[:2]
	path := filepath.Join(t.TempDir(), "warproute.yaml")
	if err := g.peer.Configure(all[0].pair, all[1].pair); err != nil {
		t.Fatal(err)
	}
	r := startRouter(t, g.router, "--config", g.configuration(path, all...))
	ping := func(u *tunnel) error {
		_, err := lab.Ping(g.client, u.peer, lab.PingOptions{Source: u.client, Count: 1})
		return err
	}
	for i := range all {
		if err := ping(&all[i]); err != nil {
			t.Fatal(err)
		}
	}
	reload := func(want string) {
		t.Helper()
		before := strings.Count(r.out.String(), want)
		if err := r.proc.Signal(unix.SIGHUP); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(5 * time.Second); strings.Count(r.out.String(), want) == before; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the router does not say %q:\n%s", want, r.out)
			}
		}
	}
	sequence := func(name string) uint64 {
		t.Helper()
		var sas []status.SA
		if err := r.get("/sas", &sas); err != nil {
			t.Fatal(err)
		}
		for _, s := range sas {
			if s.Name == name {
				return s.Sequence
			}
		}
		t.Fatalf("there is no %s among %v", name, sas)
		return 0
	}

	if err := os.WriteFile(path, []byte("ports: [{interface: lan0}, {interface: wan0}]\nipsec: {sas: [{}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	reload("the configuration stays as it was")
	if err := ping(&all[0]); err != nil {
		t.Errorf("after a wrong configuration: %v", err)
	}

	s := all[1].pair.Suite
	all[1].pair.In, all[1].pair.Out = peer.RandomSA(s, 0x5001), peer.RandomSA(s, 0x5002)
	g.configuration(path, all...)
	reload("the configuration was reloaded")
	all[0].pair.Out.Seq = 100 // the peer begins anew, and may not with numbers that we have seen
	if err := g.peer.Configure(all[0].pair, all[1].pair); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if err := ping(&all[i]); err != nil {
			t.Errorf("%s after the reload: %v", all[i].name, err)
		}
	}
	if n := sequence("out-0"); n < 3 {
		t.Errorf("the association that stayed has sent %d packets, want those before the reload too", n)
	}
	if n := sequence("out-1"); n != 1 {
		t.Errorf("the new association has sent %d packets, want 1", n)
	}

	// A router that starts again goes on behind the numbers that it used.
	r.stop()
	r = startRouter(t, g.router, "--config", path)
	if err := ping(&all[0]); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if n := sequence("out-0"); n < 4 {
		t.Errorf("after a restart the last sequence number is %d", n)
	}
}

// What a policy protects does not leave in clear, when its association is gone either,
// and what arrives in clear in its place is refused.
func TestNothingPassesInClear(t *testing.T) {
	g := newGateways(t)
	u := tunnels()[0]
	if err := g.peer.Configure(); err != nil { // the peer knows of no IPsec
		t.Fatal(err)
	}
	r := startRouter(t, g.router, "--config", g.configuration(filepath.Join(t.TempDir(), "warproute.yaml"), u))
	if _, err := lab.Ping(g.client, u.peer, lab.PingOptions{Source: u.client, Count: 1, Timeout: 300 * time.Millisecond}); err == nil {
		t.Error("a ping was answered that the peer could not decrypt")
	}
	if out, err := g.peer.Run("sh", "-c", fmt.Sprintf("ping -c 3 -i 0.1 -W 1 -I %v %v", u.peer, u.client)); err == nil {
		t.Errorf("a ping in clear was answered:\n%s", out)
	}
	if n := r.drops("xfrm_in_tmpl_mismatch"); n != 3 {
		t.Errorf("%d packets refused that came in clear, want 3", n)
	}
}
