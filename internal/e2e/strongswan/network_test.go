package strongswan

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
)

// network is a tunnel between two gateways. The first is warproute, which has its
// associations from the XFRM of a Linux that forwards nothing; the second is Linux.
//
//	client ── lan0 a wan0 ── wire ── wan0 b lan0 ── server
//	10.1.0.2      192.0.2.1      192.0.2.2          10.2.0.2
//	fd01::2                                         fd02::2
type network struct {
	t                    *testing.T
	client, wire, server *lab.Namespace
	a, b                 *gateway
	program, socket      string
	out                  bytes.Buffer // of the router
	start                time.Time
}

// family is what the hosts of one are, and the gateways before them.
type family struct {
	name                 string
	client, a, b, server netip.Prefix // addresses in their networks
	outerA, outerB       netip.Prefix
}

var families = []*family{
	newFamily("IPv4", "10.1.0.", "10.2.0.", "192.0.2.", 24),
	newFamily("IPv6", "fd01::", "fd02::", "2001:db8::", 64),
}

func newFamily(name, near, far, outer string, bits int) *family {
	host := func(net string, host int) netip.Prefix {
		return netip.MustParsePrefix(fmt.Sprintf("%s%d/%d", net, host, bits))
	}
	return &family{name, host(near, 2), host(near, 1), host(far, 1), host(far, 2), host(outer, 1), host(outer, 2)}
}

func newNetwork(t *testing.T, program string) *network {
	t.Helper()
	n := &network{t: t, start: time.Now(), program: program, socket: filepath.Join(t.TempDir(), "control.sock")}
	namespace := func(name string) *lab.Namespace {
		ns, err := lab.New(name)
		n.must(err)
		t.Cleanup(func() { ns.Close() })
		return ns
	}
	n.client, n.wire, n.server = namespace("client"), namespace("wire"), namespace("server")
	n.a = &gateway{namespace("a"), t, t.TempDir(), "192.0.2.1", "192.0.2.2"}
	n.b = &gateway{namespace("b"), t, t.TempDir(), "192.0.2.2", "192.0.2.1"}
	for _, v := range [][2]lab.End{
		{{Namespace: n.client, Name: "eth0"}, {Namespace: n.a.Namespace, Name: "lan0"}},
		{{Namespace: n.a.Namespace, Name: "wan0"}, {Namespace: n.wire, Name: "near"}},
		{{Namespace: n.b.Namespace, Name: "wan0"}, {Namespace: n.wire, Name: "far"}},
		{{Namespace: n.server, Name: "eth0"}, {Namespace: n.b.Namespace, Name: "lan0"}},
	} {
		n.must(lab.Veth(v[0], v[1], lab.VethOptions{}))
	}
	n.bridge()
	for _, f := range families {
		n.must(n.client.AddAddr("eth0", f.client))
		n.must(n.a.AddAddr("lan0", f.a))
		n.must(n.a.AddAddr("wan0", f.outerA))
		n.must(n.b.AddAddr("wan0", f.outerB))
		n.must(n.b.AddAddr("lan0", f.b))
		n.must(n.server.AddAddr("eth0", f.server))
		n.must(n.client.AddRoute(f.server, f.a.Addr()))
		n.must(n.server.AddRoute(f.client, f.b.Addr()))
		// In clear there is a way too, so that it is IPsec alone that keeps packets off it.
		n.must(n.a.AddRoute(f.server, f.outerB.Addr()))
		n.must(n.b.AddRoute(f.client, f.outerA.Addr()))
	}
	for _, s := range []string{"net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"} {
		n.must(n.a.Sysctl(s, "0"))
		n.must(n.b.Sysctl(s, "1"))
	}
	limits := fmt.Sprintf("rekey_packets = %d\n\t\trand_packets = 0\n\t\tlife_packets = %d", rekeyPackets, 1000*rekeyPackets)
	n.a.startCharon("10.1.0.0/24, fd01::/64", "10.2.0.0/24, fd02::/64", limits)
	n.b.startCharon("10.2.0.0/24, fd02::/64", "10.1.0.0/24, fd01::/64", "")
	n.startRouter()
	for _, g := range []*gateway{n.a, n.b} {
		g.load("swanctl.conf")
	}
	return n
}

// rekeyPackets is after how many packets the first gateway's key daemon rekeys.
const rekeyPackets = 800

// bridge joins the two ends of the wire.
func (n *network) bridge() {
	for _, args := range [][]string{
		{"link", "add", "br0", "type", "bridge", "mcast_snooping", "0"},
		{"link", "set", "br0", "up", "addrgenmode", "none"},
		{"link", "set", "near", "master", "br0", "addrgenmode", "none"},
		{"link", "set", "far", "master", "br0", "addrgenmode", "none"},
	} {
		n.run(n.wire, "ip", args...)
	}
	n.must(n.wire.Sysctl("net.ipv6.conf.all.disable_ipv6", "1"))
}

func (n *network) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *network) run(ns *lab.Namespace, name string, args ...string) string {
	n.t.Helper()
	out, err := ns.Run(name, args...)
	n.must(err)
	return out
}

// startRouter starts warproute in the first gateway.
func (n *network) startRouter() {
	n.t.Helper()
	file := filepath.Join(n.a.dir, "warproute.yaml")
	n.must(os.WriteFile(file, []byte("ports: [{interface: lan0}, {interface: wan0}]\nengine: cpu\nipsec: {source: xfrm}\n"), 0o600))
	cmd := exec.Command(n.program, "run", "--config", file, "--socket", n.socket, "--metrics", "none")
	cmd.Stdout, cmd.Stderr = &n.out, &n.out
	p, err := n.a.Start(cmd)
	n.must(err)
	n.t.Cleanup(func() {
		if err := p.Stop(5 * time.Second); err != nil {
			n.t.Errorf("the router ended with %v", err)
		}
		if n.t.Failed() {
			n.t.Logf("the router wrote:\n%s", &n.out)
		}
	})
	n.eventually("the router serves", func() error {
		select {
		case <-p.Done():
			n.t.Fatal("the router ended at its start")
		default:
		}
		return n.get("/engine", &status.Engine{})
	})
}

func (n *network) get(path string, out any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return socket.Get(ctx, n.socket, path, out)
}

// answered waits until the server answers: packets that find no tunnel are dropped, and have
// key daemons make one.
func (n *network) answered(what string) {
	n.t.Helper()
	n.eventually(what, func() error {
		_, err := lab.Ping(n.client, families[0].server.Addr(), lab.PingOptions{Count: 1, Timeout: 200 * time.Millisecond})
		return err
	})
}

// refusals logs what either gateway has dropped.
func (n *network) refusals() {
	n.t.Helper()
	n.t.Logf("the router's drops:\n%s", n.run(n.a.Namespace, n.program, "show", "drops", "--socket", n.socket))
	n.t.Logf("the peer's:\n%s", n.run(n.b.Namespace, "cat", "/proc/net/xfrm_stat"))
}

// drops returns how many packets the router has dropped for a reason.
func (n *network) drops(reason string) (sum uint64) {
	n.t.Helper()
	var all []status.Drop
	n.must(n.get("/drops", &all))
	for _, d := range all {
		if d.Reason == reason {
			sum += d.Packets
		}
	}
	return sum
}

// eventually waits until something is so.
func (n *network) eventually(what string, check func() error) {
	n.t.Helper()
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		err := check()
		if err == nil {
			n.t.Logf("after %v: %s", time.Since(n.start).Round(10*time.Millisecond), what)
			return
		}
		if time.Now().After(end) {
			n.t.Fatalf("%s: not so: %v", what, err)
		}
	}
}
