package strongswan

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/guest"
	"github.com/warproute/warproute/internal/lab/labtest"
)

func TestRouteBasedTunnels(t *testing.T) {
	guest.InVM(t, 200*time.Second, []string{"veth", "bridge", "xfrm_user", "xfrm_interface", "esp4", "esp6", "drbg", "seqiv", "tun", "sch_ingress", "cls_matchall", "act_mirred", "act_gact"}, testRouteBased)
}

// routed is two gateways with two policy-based and two route-based tunnels, of which the second has addresses of
// its own, and BGP over both route-based ones:
//
//	10.1.0.0/24  policy  10.2.0.0/24            10.11.0.0/24  BGP by ipsec1, or else ipsec2  10.12.0.0/24
//	fd01::/64    policy  fd02::/64              fd11::/64     static by ipsec2               fd12::/64
type routed struct{ *network }

var (
	policy4 = families[0]
	policy6 = families[1]
	route4  = &family{"IPv4 by routes", netip.MustParsePrefix("10.11.0.2/24"), netip.MustParsePrefix("10.12.0.2/24")}
	route6  = &family{"IPv6 by routes", netip.MustParsePrefix("fd11::2/64"), netip.MustParsePrefix("fd12::2/64")}
)

func newRouted(t *testing.T, program string) *routed {
	t.Helper()
	n := &network{t: t, start: time.Now(), program: program}
	made, err := lab.Build(lab.VethOptions{}, `
client eth0 10.1.0.2/24 fd01::2/64 10.11.0.2/24 fd11::2/64 -- a lan0 10.1.0.1/24 fd01::1/64 10.11.0.1/24 fd11::1/64
a wan0 192.0.2.1/24 192.0.2.11/24 2001:db8::1/64 -- wire near
b wan0 192.0.2.2/24 192.0.2.12/24 2001:db8::2/64 -- wire far
server eth0 10.2.0.2/24 fd02::2/64 10.12.0.2/24 fd12::2/64 -- b lan0 10.2.0.1/24 fd02::1/64 10.12.0.1/24 fd12::1/64
client route 10.2.0.0/24 10.1.0.1
client route fd02::/64 fd01::1
client route 10.12.0.0/24 10.11.0.1
client route fd12::/64 fd11::1
server route 10.1.0.0/24 10.2.0.1
server route fd01::/64 fd02::1
server route 10.11.0.0/24 10.12.0.1
server route fd11::/64 fd12::1
b sysctl net.ipv4.ip_forward 1
b sysctl net.ipv6.conf.all.forwarding 1
`+plaintextRoutes)
	n.must(err)
	t.Cleanup(made.Close)
	n.client, n.wire, n.server = made["client"], made["wire"], made["server"]
	n.a = &gateway{made["a"], t, t.TempDir(), "192.0.2.1", "192.0.2.2"}
	n.b = &gateway{made["b"], t, t.TempDir(), "192.0.2.2", "192.0.2.1"}
	n.bridge()
	for i, g := range []*gateway{n.a, n.b} {
		labtest.IP(t, g.Namespace,
			"link add ipsec1 type xfrm dev wan0 if_id 41", "link set ipsec1 up", fmt.Sprintf("addr add 10.255.1.%d/30 dev ipsec1", i+1),
			"link add ipsec2 type xfrm dev wan0 if_id 42", "link set ipsec2 up", fmt.Sprintf("addr add 10.255.2.%d/30 dev ipsec2", i+1))
		g.startDaemon("")
		g.write("swanctl.conf", routedConfig(i == 0))
	}
	labtest.IP(t, n.a.Namespace, "route add fd12::/64 dev ipsec2")
	labtest.IP(t, n.b.Namespace, "route add fd11::/64 dev ipsec2")
	file := filepath.Join(n.a.dir, "warproute.yaml")
	n.must(os.WriteFile(file, []byte("ports: [{interface: lan0}, {interface: wan0}]\nengine: cpu\nipsec: {source: xfrm, interface: host0}\n"), 0o600))
	n.Router = labtest.Start(t, n.a.Namespace, n.program, nil, "--config", file, "--metrics", "none")
	for _, g := range []*gateway{n.a, n.b} {
		g.load("swanctl.conf")
	}
	return &routed{n}
}

// routedConfig returns the configuration of the first or the second gateway.
func routedConfig(first bool) string {
	near, far := []string{"192.0.2.1", "192.0.2.11", "10.1.0.0/24", "fd01::/64"}, []string{"192.0.2.2", "192.0.2.12", "10.2.0.0/24", "fd02::/64"}
	if !first {
		near, far = far, near
	}
	child := func(name, local, remote, more string) string {
		return fmt.Sprintf("%s { local_ts = %s\n remote_ts = %s\n esp_proposals = aes128gcm16-ecp256-esn\n start_action = trap\n %s }\n", name, local, remote, more)
	}
	connection := func(i int, children ...string) string {
		return fmt.Sprintf("c%d { local_addrs = %s\n remote_addrs = %s\n proposals = aes128-sha256-ecp256\n local { auth = psk }\n remote { auth = psk }\n children { %s } }\n",
			i, near[i], far[i], strings.Join(children, ""))
	}
	const everything = "0.0.0.0/0, ::/0"
	return "connections {\n" + connection(0, child("net4", near[2], far[2], ""), child("net6", near[3], far[3], ""), child("route1", everything, everything, "if_id_in = 41\n if_id_out = 41")) +
		connection(1, child("route2", everything, everything, "if_id_in = 42\n if_id_out = 42")) +
		"}\nsecrets { ike { secret = \"the quick brown fox\" } }\n"
}

// startBGP starts BIRD in both gateways. The hold time lets the sessions survive a guest whose processor is busy for
// seconds with rekeying.
func (n *routed) startBGP() {
	n.t.Helper()
	for i, g := range []*gateway{n.a, n.b} {
		session := func(k, preference int) string {
			return fmt.Sprintf(`protocol bgp tunnel%d { local 10.255.%d.%d as %d; neighbor 10.255.%d.%d as %d; hold time 24; keepalive time 2; connect retry time 1; connect delay time 1; error wait time 1, 2;
	ipv4 { import filter { bgp_local_pref = %d; accept; }; export where net ~ [10.11.0.0/24, 10.12.0.0/24] && source = RTS_DEVICE; }; }
`, k, k, i+1, 65001+i, k, 2-i, 65002-i, preference)
		}
		g.write("bird.conf", fmt.Sprintf("log stderr all;\nrouter id 192.0.2.%d;\nprotocol device { scan time 1; }\nprotocol direct { ipv4; interface \"lan0\"; }\n", i+1)+
			"protocol kernel { ipv4 { import none; export where source = RTS_BGP; }; }\n"+session(1, 200)+session(2, 100))
		cmd := exec.Command("bird", "-f", "-c", filepath.Join(g.dir, "bird.conf"), "-s", filepath.Join(g.dir, "bird.ctl"))
		cmd.Stderr = os.Stderr
		p, err := g.Start(cmd)
		n.must(err)
		n.t.Cleanup(func() { p.Stop(5 * time.Second) })
	}
}

// established waits until both gateways have the given sessions.
func (n *routed) established(when string, sessions int) {
	n.t.Helper()
	n.eventually(when, func() error {
		for _, g := range []*gateway{n.a, n.b} {
			out, err := g.Run("birdc", "-s", filepath.Join(g.dir, "bird.ctl"), "show", "protocols")
			if got := strings.Count(out, "Established"); err != nil || got != sessions {
				return fmt.Errorf("%d sessions of %d are established: %v\n%s", got, sessions, err, out)
			}
		}
		return nil
	})
}

// packets returns the numbers of packets by all outbound SAs with an if_id, by their name's end; "" for the others.
func (n *routed) packets() map[string]uint64 {
	n.t.Helper()
	var sas []status.SA
	n.must(n.Get("/sas", &sas))
	sums := map[string]uint64{}
	for _, s := range sas {
		if s.Direction == "out" {
			_, id, _ := strings.Cut(s.Name, "if_id ")
			sums[id] += s.Packets
		}
	}
	return sums
}

// reached waits until the server answers.
func (n *routed) reached(when string, f *family) {
	n.t.Helper()
	n.eventually(when, func() error {
		_, err := lab.Ping(n.client, f.server.Addr(), lab.PingOptions{Count: 1, Timeout: 300 * time.Millisecond})
		return err
	})
}

// testRouteBased brings up tunnels of both kinds at once by traffic, rekeys them under load, and moves the routes of a
// tunnel that dies to the other one by BGP.
func testRouteBased(t *testing.T, program string) {
	n := newRouted(t, program)
	w := n.watch()
	n.reached("policy-based IPv4", policy4)
	n.reached("policy-based IPv6", policy6)
	n.reached("route-based IPv6, by a static route", route6)
	n.startBGP()
	n.established("BGP over both route-based tunnels", 2)
	n.reached("route-based IPv4, by a route of BGP", route4)
	n.eventually("the route of BGP is mirrored, over the preferred tunnel", func() error { // which may announce it after the other one
		var all []mirror.RouteInfo
		if err := n.Get("/routes", &all); err != nil {
			return err
		}
		for _, r := range all {
			if r.Prefix.String() == "10.12.0.0/24" && r.Kind == "tunnel" && r.Unsupported == "" && r.Paths[0].Dev == "ipsec1" {
				return nil
			}
		}
		return fmt.Errorf("%+v", all)
	})
	before := n.packets()

	var loads []*load
	for _, f := range []*family{policy4, policy6, route4, route6} {
		loads = append(loads, n.startLoad(f))
	}
	iperf := n.startIperf(route4)
	time.Sleep(time.Second)
	for _, child := range []string{"net4", "net6", "route1", "route2"} {
		n.a.swanctl("--rekey", "--child", child)
		n.b.swanctl("--rekey", "--child", child)
	}
	iperf()
	for _, l := range loads {
		l.end(t)
	}
	after := n.packets()
	t.Logf("packets by if_id: %v, then %v", before, after)
	if t.Failed() {
		n.refusals()
	}
	w.check(true)
	for _, i := range []string{"ipsec1", "ipsec2"} { // Linux would use the sequence numbers of the router's SAs
		if out := labtest.Run(t, n.a.Namespace, "sh", "-c", "cat /sys/class/net/"+i+"/statistics/tx_packets"); strings.TrimSpace(out) != "0" {
			t.Errorf("Linux has transmitted %s packets on %s itself", strings.TrimSpace(out), i)
		}
	}
	var v mirror.Verification
	n.must(n.Get("/verify", &v))
	if v.Different != 0 {
		t.Errorf("the tables differ from Linux's: %+v", v.Differences)
	}

	n.established("BGP has survived", 2)
	for _, d := range []struct {
		from, to *gateway
		addr     string
	}{{n.a, n.b, "10.255.1.2"}, {n.b, n.a, "10.255.1.1"}} { // segments larger than the MTU of the tunnel
		r, err := lab.Transfer(d.from.Namespace, d.to.Namespace, netip.MustParseAddr(d.addr), 1<<18, 20*time.Second)
		n.must(err)
		t.Logf("TCP of the host to %s: %d bytes in %v", d.addr, r.Bytes, r.Elapsed)
	}
	labtest.IP(t, n.b.Namespace, "link set ipsec1 down")
	start := time.Now()
	n.patience = 40 * time.Second // more than the hold time
	n.established("BGP has lost the session over the dead tunnel", 1)
	n.reached("the routes of the dead tunnel have moved", route4)
	t.Logf("failover took %v", time.Since(start).Round(100*time.Millisecond))
	second := n.packets()["42"]
	l := n.startLoad(route4)
	time.Sleep(time.Second)
	l.end(t)
	if now := n.packets()["42"]; now < second+rate*4/5 {
		t.Errorf("%d packets have passed the second tunnel since the first died", now-second)
	}
	labtest.IP(t, n.b.Namespace, "link set ipsec1 up", "addr replace 10.255.1.2/30 dev ipsec1")
	n.established("BGP over both tunnels again", 2)

	// Without its interface a tunnel carries nothing, and nothing leaves in cleartext.
	labtest.IP(t, n.a.Namespace, "link set ipsec2 down")
	if r, _ := lab.Ping(n.client, route6.server.Addr(), lab.PingOptions{Count: 3, Timeout: 100 * time.Millisecond}); r.Received > 0 {
		t.Errorf("with its interface down, %d pings through the tunnel are answered", r.Received)
	}
	n.reached("the policy-based tunnels do not need it", policy6)
	labtest.IP(t, n.a.Namespace, "link set ipsec2 up", "route add fd12::/64 dev ipsec2")
	n.reached("the interface is up again", route6)
	labtest.IP(t, n.a.Namespace, "link del ipsec2")
	labtest.IP(t, n.a.Namespace, "link add ipsec2 type xfrm dev wan0 if_id 42", "link set ipsec2 up", "route add fd12::/64 dev ipsec2")
	n.reached("the interface was created again", route6)
	w.check(true)
	n.loadDocumented()
}

// startIperf starts a transfer by iperf3 and returns a function that waits for its end.
func (n *routed) startIperf(f *family) (wait func()) {
	n.t.Helper()
	server, err := n.server.Start(exec.Command("iperf3", "-s", "-1"))
	n.must(err)
	n.t.Cleanup(func() { server.Stop(time.Second) })
	time.Sleep(500 * time.Millisecond)
	done := make(chan string, 1)
	go func() {
		out, err := n.client.Run("iperf3", "-c", f.server.Addr().String(), "-t", "6", "-b", "1M", "-f", "k")
		done <- fmt.Sprintf("%s%v", out, err)
	}()
	return func() {
		n.t.Helper()
		out := <-done
		if !strings.Contains(out, "receiver") {
			n.t.Errorf("iperf3: %s", out)
		}
		n.t.Logf("iperf3 while rekeying:\n%s", out)
	}
}

// loadDocumented loads the route-based configuration of docs/ipsec.md, which strongSwan must accept.
func (n *routed) loadDocumented() {
	n.t.Helper()
	text, err := os.ReadFile("../../../docs/ipsec.md")
	n.must(err)
	loaded := 0
	for i, block := range strings.Split(string(text), "```") {
		if i%2 == 1 && strings.HasPrefix(block, "\nconnections {") {
			n.a.write("documented.conf", block)
			n.a.load("documented.conf")
			loaded++
		}
	}
	if loaded != 1 {
		n.t.Errorf("docs/ipsec.md has %d configurations, want a route-based one", loaded)
	}
	if out := n.a.swanctl("--list-conns"); !strings.Contains(out, "branch") {
		n.t.Errorf("strongSwan has not loaded the documented connection:\n%s", out)
	}
}
