package e2e

import (
	"bytes"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
)

// forward lets Linux forward on all interfaces of a namespace.
func forward(t *testing.T, ns *lab.Namespace) {
	t.Helper()
	sysctl(t, ns, "net.ipv4.ip_forward", "1")
	sysctl(t, ns, "net.ipv6.conf.all.forwarding", "1")
}

// exitFrames are frames of the client to the server.
func exitFrames() (frames [][]byte) {
	for i := range 8 {
		payload := bytes.Repeat([]byte{byte(i)}, 40+180*i)
		four := testutil.UDP4("10.7.0.2", "10.8.0.2", 9, uint16(i), payload...)
		six := testutil.UDP6("fd07::2", "fd08::2", 9, uint16(i), payload...)
		frames = append(frames, four, six,
			testutil.Edit(four, 8, 2), testutil.Edit(four, 8, 1), testutil.Edit(four, 6, 0x40), testutil.Edit(four, 1, 0x28),
			testutil.Edit(four, 6, 0x20), testutil.Edit(four, 6, 0, 40), testutil.Edit(four, 6, 0x40, 0), // fragments
			testutil.Edit(four, 9, 132), testutil.Edit(six, 7, 2), testutil.Edit(six, 7, 1), testutil.Edit(six, 6, 132),
			testutil.Edit(six, 0, 0x62, 0x81, 2, 3), testutil.UDP4("10.7.0.2", "10.8.0.77", 9, uint16(i), payload...),
			testutil.UDP4("172.16.0.1", "10.8.0.2", 9, uint16(i), payload...)) // from a source without a route
	}
	return frames
}

// exchange sends frames of the client and returns the packets that the server and the client receive, without
// link headers and in order of their bytes. Identifications and flow labels of ICMP errors are cleared.
func exchange(t *testing.T, top *lab.Topology, frames [][]byte) (server, client []string) {
	t.Helper()
	atServer, atClient := startSniffer(t, top.Server, lab.ServerLink), startSniffer(t, top.Client, lab.ClientLink)
	fd, err := top.Client.PacketSocket(lab.ClientLink)
	require.NoError(t, err)
	defer unix.Close(fd)
	for _, f := range frames {
		f = bytes.Clone(f)
		copy(f, macOf(t, top.Router, lab.LAN))
		copy(f[6:], macOf(t, top.Client, lab.ClientLink))
		_, err := unix.Write(fd, f)
		require.NoError(t, err)
		time.Sleep(2 * time.Millisecond)
	}
	time.Sleep(4 * time.Second) // until Linux reports the host that is not there
	texts := func(s *sniffer) (texts []string) {
		in, _ := s.frames()
		for _, f := range in {
			p := bytes.Clone(f[14:])
			if p[0]>>4 == 4 && p[9] == 1 {
				clear(p[4:6])
				clear(p[10:12])
			}
			if p[0]>>4 == 6 && p[6] == 58 {
				clear(p[1:4]) // Linux chooses a flow label
			}
			texts = append(texts, fmt.Sprintf("% x", p))
		}
		slices.Sort(texts)
		return texts
	}
	return texts(atServer), texts(atClient)
}

// What leaves by an interface that is not a port, and the ICMP errors about it, is the same as with Linux alone:
// TTL, DF, fragments, sources of errors.
func TestExitsEqualLinux(t *testing.T) {
	t.Parallel()
	for _, filter := range []string{"0", "1"} {
		var server, client [2][]string
		for i := range 2 {
			top := newTopology(t, lab.VethOptions{})
			forward(t, top.Router)
			ip(t, top.Router, "link set "+lab.WAN+" mtu 1300")
			for _, ns := range []*lab.Namespace{top.Router, top.Server} {
				sysctl(t, ns, "net.ipv4.icmp_ratelimit", "0")
				sysctl(t, ns, "net.ipv6.icmp.ratelimit", "0")
			}
			sysctl(t, top.Router, "net.ipv4.conf.all.rp_filter", filter)
			var r *router
			if i == 1 {
				r = startConfigured(t, top.Router, "ports: [{interface: lan0}]\nicmp: {source_per_second: 1000000, source_burst: 10000}\n")
			}
			checkPing(t, top.Client, lab.Server4.Addr(), lab.PingOptions{})
			checkPing(t, top.Client, lab.Server6.Addr(), lab.PingOptions{})
			server[i], client[i] = exchange(t, top, exitFrames())
			if i == 1 {
				if b := r.Stop(); b.Transmitted+b.Dropped != b.Received || b.Dropped > 24 {
					t.Errorf("%+v does not add up", b)
				}
			}
		}
		if len(server[0]) < 50 || len(client[0]) < 10 {
			t.Fatalf("%d packets at the server, %d at the client", len(server[0]), len(client[0]))
		}
		compareTexts(t, "the server", server[1], server[0])
		compareTexts(t, "the client", client[1], client[0])
	}
}

func compareTexts(t *testing.T, who string, got, want []string) {
	t.Helper()
	for _, s := range want {
		if i := slices.Index(got, s); i >= 0 {
			got = slices.Delete(slices.Clone(got), i, i+1)
		} else {
			t.Errorf("%s does not receive %s", who, s)
		}
	}
	for _, s := range got {
		t.Errorf("%s also receives %s", who, s)
	}
}

// TCP passes in both directions through interfaces of several kinds, the accounts add up, and commands name
// the exit.
func TestTransfersThroughExits(t *testing.T) {
	for kind, setup := range map[string][2][]string{ // commands of the router and of the server
		"veth": {},
		"bridge": {
			{"link add br0 type bridge", "link set br0 up", "addr flush dev wan0", "link set wan0 master br0", "addr add 10.8.0.1/24 dev br0", "addr add fd08::1/64 dev br0 nodad"}, {}},
		"vxlan": {
			{"link add vx0 type vxlan id 5 dstport 4789 local 10.8.0.1 remote 10.8.0.2", "link set vx0 up", "addr add 10.9.0.1/24 dev vx0", "addr add fd09::1/64 dev vx0 nodad"},
			{"link add vx0 type vxlan id 5 dstport 4789 local 10.8.0.2 remote 10.8.0.1", "link set vx0 up", "addr add 10.9.0.2/24 dev vx0", "addr add fd09::2/64 dev vx0 nodad",
				"route replace default via 10.9.0.1", "-6 route replace default via fd09::1"}},
	} {
		t.Run(kind, func(t *testing.T) {
			top := newTopology(t, lab.VethOptions{})
			forward(t, top.Router)
			ip(t, top.Router, setup[0]...)
			ip(t, top.Server, setup[1]...)
			four, six, dev := lab.Server4.Addr(), lab.Server6.Addr(), map[string]string{"veth": "wan0", "bridge": "br0", "vxlan": "vx0"}[kind]
			if kind == "vxlan" {
				four, six = netip.MustParseAddr("10.9.0.2"), netip.MustParseAddr("fd09::2")
			}
			r := startRouter(t, top.Router, "--port", lab.LAN)
			if log := r.Out.String(); !strings.Contains(log, "routes exit by linux") || strings.Contains(log, "unsupported routes") {
				t.Errorf("the log does not name the exit:\n%s", log)
			}
			eventually(t, 5*time.Second, "the server answers", func() bool {
				_, err4 := lab.Ping(top.Client, four, lab.PingOptions{Count: 1, Timeout: 300 * time.Millisecond})
				_, err6 := lab.Ping(top.Client, six, lab.PingOptions{Count: 1, Timeout: 300 * time.Millisecond})
				return err4 == nil && err6 == nil
			})
			for _, addr := range []netip.Addr{four, six} {
				checkTransfer(t, top.Client, top.Server, addr, 20<<20, 20*time.Second)
				client := lab.Client4.Addr()
				if addr.Is6() {
					client = lab.Client6.Addr()
				}
				checkTransfer(t, top.Server, top.Client, client, 20<<20, 20*time.Second)
				if out := r.command("route", "lookup", addr.String())(); !strings.Contains(out, "to linux") || !strings.Contains(out, dev) {
					t.Errorf("route lookup:\n%s", out)
				}
			}
			for line := range strings.Lines(must(t, top.Server, "nstat", "-az")) {
				if f := strings.Fields(line); len(f) >= 2 && strings.Contains(f[0], "Csum") && f[1] != "0" {
					t.Errorf("the server counts checksum errors: %s", line)
				}
			}
			if b := r.Stop(); b.Transmitted+b.Dropped != b.Received || b.Received < 15_000 || b.Dropped > b.Received/10 {
				t.Errorf("%+v does not add up", b)
			}
		})
	}
}

// newExitFork starts a router with the ports lan0 and wan0; packets to the second server exit by wan1.
func newExitFork(t *testing.T, config string) *fork {
	t.Helper()
	f := &fork{Topology: newTopology(t, lab.VethOptions{})}
	f.addOther(t)
	f.other = f.Network["other"]
	forward(t, f.Router)
	f.router = startConfigured(t, f.Router, "ports: [{interface: lan0}, {interface: wan0}]\n"+config)
	f.warm(t)
	return f
}

// Flows through Linux keep their order, and none of a moderate load is lost. In a flood, the packets through Linux
// beyond the worker's share are counted, and packets between ports arrive about as without them: in one try of three, as
// another process may take the time that the flood leaves.
func TestExitFlood(t *testing.T) {
	for try := 1; ; try++ {
		without, with := floodExit(t, "exit: {linux: off}\n"), floodExit(t, "exit: {share: 30}\n")
		// The last rate is beyond what a slow machine can receive. On two cores, which the sender, the receivers, Linux and
		// the router share, the second is, too: there, Linux's own work takes the router's time.
		if with[0] <= without[0]+5 && (runtime.NumCPU() < 4 || with[1] <= without[1]+5) {
			return
		}
		if try == 3 {
			t.Fatalf("%.1f %% of the packets between ports are lost in floods through Linux, %.1f %% in floods that are dropped", with, without)
		}
	}
}

// floodExit returns the share of packets between ports that are lost beside a flood, in percent, for three rates.
func floodExit(t *testing.T, config string) (between []float64) {
	t.Helper()
	f := newExitFork(t, config)
	dsts := []string{"10.8.0.2", "fd08::2"}
	for i := range 14 {
		dsts = append(dsts, []string{"10.9.0.2", "fd09::2"}[i%2])
	}
	x := f.traffic(t, dsts...)
	for try := 0; strings.Contains(config, "share"); try++ {
		_, _, lost := x.trial(t, 20_000, time.Second)
		if lost.disorder > 0 || lost.lost > 0 && try == 3 {
			t.Fatalf("at 20,000 packets/s: %+v", lost)
		}
		if lost.lost == 0 {
			break
		}
	}
	for _, rate := range []int{100_000, 200_000, 400_000} {
		before := f.router.Drops("host_limit")
		x.start(t, rate)
		time.Sleep(2 * time.Second)
		x.stop(t)
		flows, all := x.accounts(t)
		sent, n := x.sent(t)
		lost := float64(flows[0].lost+flows[1].lost) / float64(sent[0]+sent[1]) * 100
		between = append(between, lost)
		t.Logf("%s: %d packets: %.1f %% between ports lost, %d by the limit; %+v, %+v", strings.TrimSpace(config), n, lost, f.router.Drops("host_limit")-before, all, x.full(t))
		if all.disorder > 0 {
			t.Errorf("%d packets out of order", all.disorder)
		}
	}
	if b := f.router.Stop(); b.Transmitted+b.Dropped != b.Received {
		t.Errorf("%+v does not add up", b)
	}
	return between
}

// A route exits while Linux forwards on its interface; otherwise its packets are dropped as no_port. After the interface
// to Linux was deleted they are dropped as host_full, and the router forwards others.
func TestExitFollowsLinux(t *testing.T) {
	top := newTopology(t, lab.VethOptions{})
	require.NoError(t, top.Add(lab.VethOptions{}, "other other0 10.9.0.2/24 -- router wan1 10.9.0.1/24"))
	r := startRouter(t, top.Router, "--port", lab.LAN, "--port", lab.WAN)
	other := netip.MustParseAddr("10.9.0.2")
	must(t, top.Network["other"], "ip", "route", "add", "default", "via", "10.9.0.1")
	answers := func() bool {
		_, err := lab.Ping(top.Client, other, lab.PingOptions{Count: 1, Timeout: 200 * time.Millisecond})
		return err == nil
	}
	off := func(when string) {
		t.Helper()
		before := r.Drops("no_port")
		if answers() || r.Drops("no_port") == before {
			t.Errorf("%s: the packet is not dropped as no_port", when)
		}
	}
	off("without forwarding")
	sysctl(t, top.Router, "net.ipv4.ip_forward", "1")
	eventually(t, 5*time.Second, "packets exit", answers)
	sysctl(t, top.Router, "net.ipv4.conf.wan1.forwarding", "0")
	time.Sleep(effect)
	off("without forwarding on the interface")
	sysctl(t, top.Router, "net.ipv4.ip_forward", "0") // also of the interface to Linux
	sysctl(t, top.Router, "net.ipv4.conf.wan1.forwarding", "1")
	eventually(t, 5*time.Second, "packets exit, since the router restores its setting", answers)
	ip(t, top.Router, "link set wan1 down")
	time.Sleep(effect)
	if answers() {
		t.Error("packets exit by an interface that is down")
	}
	ip(t, top.Router, "link set wan1 up")
	eventually(t, 5*time.Second, "packets exit again", answers)

	// From port to exit and back: a route moves.
	ip(t, top.Router, "route replace 10.9.0.2/32 via "+lab.Server4.Addr().String())
	time.Sleep(effect)
	if answers() {
		t.Error("the route by the port is not used")
	}
	ip(t, top.Router, "route del 10.9.0.2/32")
	eventually(t, 5*time.Second, "packets exit after the route by a port is deleted", answers)
	// A multipath route with a port uses the port alone.
	ip(t, top.Router, "route replace 10.50.0.0/16 nexthop via "+lab.Server4.Addr().String()+" nexthop via 10.9.0.2")
	time.Sleep(effect)
	if out := r.command("route", "lookup", "10.50.0.1")(); !strings.Contains(out, "forward") || strings.Contains(out, "to linux") {
		t.Errorf("route lookup of a multipath route with a port:\n%s", out)
	}
	ip(t, top.Router, "route replace default dev warproute0") // no loop
	before := r.Drops("no_port")
	if _, err := lab.Ping(top.Client, netip.MustParseAddr("192.0.2.9"), lab.PingOptions{Count: 1, Timeout: 200 * time.Millisecond}); err == nil || r.Drops("no_port") == before {
		t.Error("a route by the router's own interface exits")
	}
	ip(t, top.Router, "link del warproute0")
	eventually(t, 5*time.Second, "packets are counted as host_full", func() bool { return !answers() && r.Drops("host_full") > 0 })
	checkPing(t, top.Client, lab.Server4.Addr(), lab.PingOptions{})
	if b := r.Stop(); b.Transmitted+b.Dropped != b.Received {
		t.Errorf("%+v does not add up", b)
	}
}

// exit.linux: off drops packets without a port, whatever Linux is set to, and creates no interface.
func TestExitsCanBeDisabled(t *testing.T) {
	top := newTopology(t, lab.VethOptions{})
	forward(t, top.Router)
	r := startConfigured(t, top.Router, "ports: [{interface: lan0}]\nexit: {linux: off}\n")
	if _, err := lab.Ping(top.Client, lab.Server4.Addr(), lab.PingOptions{Count: 1, Timeout: 200 * time.Millisecond}); err == nil || r.Drops("no_port") == 0 {
		t.Errorf("%d packets dropped as no_port", r.Drops("no_port"))
	}
	if out := must(t, top.Router, "ip", "link"); strings.Contains(out, "warproute0") {
		t.Errorf("there is an interface to Linux:\n%s", out)
	}
}

const exitGateway = `
ports: [{interface: lan0}, {interface: wan0}]
%s
ipsec:
  source: config
  state: %s
  sas:
    - {name: up, spi: 0x1001, direction: out, mode: tunnel, src: 10.8.0.1, dst: %s, suite: aes128gcm16, key: "%s"}
  policies:
    - {direction: out, src: 10.7.0.0/24, dst: 10.60.0.0/16, action: protect, sa: up}
    - {direction: out, src: 10.7.0.0/24, dst: 10.61.0.0/16, action: discard}
    - {direction: out, src: 0.0.0.0/0, dst: 0.0.0.0/0, action: bypass}
    - {direction: in, src: 0.0.0.0/0, dst: 0.0.0.0/0, action: bypass}
`

// On a gateway, only packets that the policies let pass in plaintext exit, and only if exit.linux is on. Neither protected
// packets, nor their ESP, nor discarded ones leave through Linux, wherever routes lead, also before and after
// the gateway runs.
func TestGatewaysExitNothingProtected(t *testing.T) {
	for _, on := range []bool{false, true} {
		top := newTopology(t, lab.VethOptions{})
		require.NoError(t, top.Add(lab.VethOptions{}, "other other0 10.9.0.2/24 -- router wan1 10.9.0.1/24"))
		forward(t, top.Router)
		ip(t, top.Router, "route add 10.60.0.0/16 via 10.9.0.2", "route add 10.61.0.0/16 via 10.9.0.2", "route add 10.62.0.0/16 via 10.9.0.2")
		must(t, top.Network["other"], "ip", "route", "add", "default", "via", "10.9.0.1")
		setting := map[bool]string{false: "", true: "exit: {linux: on}"}[on]
		r := startConfigured(t, top.Router, fmt.Sprintf(exitGateway, setting, t.TempDir(), "10.9.0.2", strings.Repeat("1f", 20)))
		s := startSniffer(t, top.Network["other"], "other0")
		send := func() {
			for _, dst := range []string{"10.60.0.1", "10.61.0.1", "10.62.0.1", "10.9.0.2"} {
				_, _ = lab.Ping(top.Client, netip.MustParseAddr(dst), lab.PingOptions{Count: 3, Timeout: 50 * time.Millisecond})
			}
		}
		send()
		ip(t, top.Router, "route replace 10.60.0.0/16 via "+lab.Server4.Addr().String()) // to a port, and back
		send()
		ip(t, top.Router, "route replace 10.60.0.0/16 dev wan1")
		send()
		drops := r.Drops("no_port")
		r.Stop()
		send()
		in, _ := s.frames()
		plain := 0
		for _, f := range in {
			dst := netip.AddrFrom4([4]byte(f[30:]))
			switch {
			case f[12] != 8 || f[13] != 0:
			case f[23] == 50 || dst == netip.MustParseAddr("10.60.0.1") || dst == netip.MustParseAddr("10.61.0.1"):
				t.Errorf("on %v: protocol %d to %v leaves through Linux", on, f[23], dst)
			case dst == netip.MustParseAddr("10.62.0.1"):
				plain++
			}
		}
		if want := map[bool]int{false: 0, true: 9}[on]; plain != want || drops < 6 {
			t.Errorf("on %v: %d packets in plaintext leave through Linux, want %d; %d dropped", on, plain, want, drops)
		}
	}
}
