package strongswan

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/guest"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

func TestXFRMInterfacesLikeLinux(t *testing.T) {
	guest.InVM(t, 150*time.Second, []string{"veth", "xfrm_user", "xfrm_interface", "esp4", "esp6", "tun", "sch_ingress", "cls_matchall", "act_mirred", "act_gact"}, testLikeLinux)
}

// like is a router between two raw ends: Linux, and then warproute, with the same routes, states and policies.
//
//	client  10.1.0.2, fd01::2 ─── lan0  router  wan0 ─── 192.0.2.2, the other gateway, and hosts in plaintext
type like struct {
	t            *testing.T
	client, wire *lab.Namespace
	router       *lab.Namespace
	far          map[string]*ipsec.SA // seals as the other gateway, by tunnel

	mu   sync.Mutex
	seen []string // frames that the router has sent since the last probe
	ends map[string]int
}

// likeTunnels are the tunnels: if_id 43 has no interface, and that of 44 is down.
var likeTunnels = []struct {
	name string
	ifID int
}{{"policy", 0}, {"if41", 41}, {"if42", 42}, {"if43", 43}, {"if44", 44}}

const (
	likeKey    = "000102030405060708090a0b0c0d0e0f101112" // the last of 20 bytes differs
	clientMAC  = "02:00:00:00:00:c1"
	wireMAC    = "02:00:00:00:00:f1"
	routerLAN  = "02:00:00:00:00:a1"
	routerWAN  = "02:00:00:00:00:b1"
	likeOutSPI = 0x1000
	likeInSPI  = 0x2000
)

func newLike(t *testing.T) *like {
	made, err := lab.Build(lab.VethOptions{}, `
client eth0 -- router lan0 10.1.0.1/24 fd01::1/64
wire eth0 -- router wan0 192.0.2.1/24 2001:db8::1/64`)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	x := &like{t: t, client: made["client"], wire: made["wire"], router: made["router"], far: map[string]*ipsec.SA{}, ends: map[string]int{}}
	labtest.IP(t, x.client, "link set eth0 address "+clientMAC)
	labtest.IP(t, x.wire, "link set eth0 address "+wireMAC)
	labtest.IP(t, x.router, "link set lan0 address "+routerLAN, "link set wan0 address "+routerWAN,
		"neigh add 10.1.0.2 lladdr "+clientMAC+" dev lan0", "neigh add fd01::2 lladdr "+clientMAC+" dev lan0", "neigh add 192.0.2.2 lladdr "+wireMAC+" dev wan0",
		"link add ipsec1 type xfrm dev wan0 if_id 41", "link set ipsec1 mtu 1300 up", "link add ipsec2 type xfrm dev wan0 if_id 42", "link set ipsec2 up",
		"link add ipsec4 type xfrm dev wan0 if_id 44", "link set ipsec4 up",
		"route add 10.21.0.0/16 dev ipsec1", "route add 10.22.0.0/16 dev ipsec2", "route add 10.23.0.0/16 dev ipsec2", "route add 10.24.0.0/16 dev ipsec4",
		"route add 10.2.0.0/24 via 192.0.2.2", "route add 10.2.0.128/25 dev ipsec1", "route add 10.30.0.0/16 via 192.0.2.2",
		"route add fd21::/64 dev ipsec1", "route add fd22::/64 dev ipsec2", "link set ipsec4 down")
	for i, tunnel := range likeTunnels {
		more, reqid := "", 11+i
		if tunnel.ifID != 0 {
			more = fmt.Sprintf(" if_id %d", tunnel.ifID)
		}
		key := func(spi int) string { return fmt.Sprintf("%s%02x", likeKey, (spi+i)&0xff+spi>>8) }
		state := func(src, dst string, spi int) {
			labtest.IP(t, x.router, fmt.Sprintf("xfrm state add src %s dst %s proto esp spi %#x reqid %d mode tunnel flag af-unspec replay-window 32%s aead rfc4106(gcm(aes)) 0x%s 128", src, dst, spi+i, reqid, more, key(spi)))
		}
		state("192.0.2.1", "192.0.2.2", likeOutSPI)
		state("192.0.2.2", "192.0.2.1", likeInSPI)
		pairs := [][2]string{{"0.0.0.0/0", "0.0.0.0/0"}, {"::/0", "::/0"}}
		switch tunnel.name {
		case "policy":
			pairs = [][2]string{{"10.1.0.0/24", "10.2.0.0/24"}}
		case "if42":
			pairs = [][2]string{{"10.1.0.0/24", "10.22.0.0/16"}}
		}
		for _, p := range pairs {
			x.policy(p[0], p[1], reqid, more+" priority 100")
		}
		raw, _ := hex.DecodeString(key(likeInSPI))
		far, err := ipsec.NewSA(ipsec.Config{SPI: uint32(likeInSPI + i), Direction: ipsec.Out, Src: netip.MustParseAddr("192.0.2.2"), Dst: netip.MustParseAddr("192.0.2.1"),
			Suite: "aes128gcm16", Key: raw}, 1)
		if err != nil {
			t.Fatal(err)
		}
		x.far[tunnel.name] = far
	}
	x.policy("10.1.0.0/24", "10.22.8.0/24", 99, " if_id 42 priority 10") // without a state
	labtest.IP(t, x.router, "xfrm policy add src 10.1.0.0/24 dst 10.22.9.0/24 dir out action block if_id 42 priority 10")
	for _, s := range []string{"net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.wan0.rp_filter=0", "net.ipv4.conf.lan0.rp_filter=0",
		"net.ipv4.conf.ipsec1.rp_filter=0", "net.ipv4.conf.ipsec2.rp_filter=0"} {
		name, value, _ := strings.Cut(s, "=")
		if err := x.router.Sysctl(name, value); err != nil {
			t.Fatal(err)
		}
	}
	for _, end := range []struct {
		name string
		ns   *lab.Namespace
	}{{"client", x.client}, {"wire", x.wire}} {
		fd, err := end.ns.PacketSocket("eth0")
		if err != nil {
			t.Fatal(err)
		}
		x.ends[end.name] = fd
		stop, err := end.ns.Listen("eth0", func(frame []byte, out bool) {
			if text := likeText(frame); !out && text != "" {
				x.mu.Lock()
				defer x.mu.Unlock()
				x.seen = append(x.seen, end.name+" gets "+text)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	return x
}

// policy adds the policies of a tunnel in both directions.
func (x *like) policy(near, far string, reqid int, more string) {
	const tmpl = " tmpl src %s dst %s proto esp reqid %d mode tunnel"
	labtest.IP(x.t, x.router, fmt.Sprintf("xfrm policy add src %s dst %s dir out%s"+tmpl, near, far, more, "192.0.2.1", "192.0.2.2", reqid))
	for _, dir := range []string{"in", "fwd"} {
		labtest.IP(x.t, x.router, fmt.Sprintf("xfrm policy add src %s dst %s dir %s%s"+tmpl, far, near, dir, more, "192.0.2.2", "192.0.2.1", reqid))
	}
}

// likeText describes a frame of a probe or its consequence, "" for others. Source addresses of ICMP errors may differ.
func likeText(f []byte) string {
	if len(f) < packet.EthernetLen+packet.IPv4Len {
		return ""
	}
	p := f[packet.EthernetLen:]
	switch binary.BigEndian.Uint16(f[12:]) {
	case unix.ETH_P_IP:
		switch src, dst := netip.AddrFrom4([4]byte(p[12:])), netip.AddrFrom4([4]byte(p[16:])); p[9] {
		case unix.IPPROTO_ESP:
			return fmt.Sprintf("ESP %#x of %d bytes", binary.BigEndian.Uint32(p[20:]), binary.BigEndian.Uint16(p[2:]))
		case unix.IPPROTO_UDP:
			return fmt.Sprintf("UDP %v to %v, TTL %d, %d bytes", src, dst, p[8], binary.BigEndian.Uint16(p[2:]))
		case unix.IPPROTO_ICMP:
			return fmt.Sprintf("ICMP %d/%d to %v, MTU %d", p[20], p[21], dst, binary.BigEndian.Uint16(p[26:]))
		}
	case unix.ETH_P_IPV6:
		if len(p) < packet.IPv6Len+8 {
			return ""
		}
		src, dst := netip.AddrFrom16([16]byte(p[8:])), netip.AddrFrom16([16]byte(p[24:]))
		if p[6] == unix.IPPROTO_UDP {
			return fmt.Sprintf("UDP %v to %v, hop limit %d", src, dst, p[7])
		}
		if p[6] == unix.IPPROTO_ICMPV6 && p[40] < 128 {
			return fmt.Sprintf("ICMPv6 %d/%d to %v, MTU %d", p[40], p[41], dst, binary.BigEndian.Uint32(p[44:]))
		}
	}
	return ""
}

// probe sends a frame from an end and returns what the router sends for it.
func (x *like) probe(from string, frame []byte) string {
	x.mu.Lock()
	x.seen = nil
	x.mu.Unlock()
	if err := unix.Send(x.ends[from], frame, 0); err != nil {
		x.t.Fatal(err)
	}
	time.Sleep(250 * time.Millisecond)
	x.mu.Lock()
	defer x.mu.Unlock()
	slices.Sort(x.seen)
	return strings.Join(x.seen, "; ")
}

// sealed returns a frame as the other gateway's ESP.
func (x *like) sealed(tunnel string, frame []byte) []byte {
	buf := make([]byte, 256+len(frame)+64)
	copy(buf[256:], frame[packet.EthernetLen:])
	at, n, err := x.far[tunnel].Encapsulate(0, buf, 256, len(frame)-packet.EthernetLen)
	if err != ipsec.OK {
		x.t.Fatal(err)
	}
	return addressed(slices.Concat(frame[:12], []byte{8, 0}, buf[at:at+n]), routerWAN, wireMAC)
}

// addressed sets the MAC addresses of a frame.
func addressed(f []byte, dst, src string) []byte {
	f = bytes.Clone(f)
	for i, text := range []string{dst, src} {
		raw, _ := hex.DecodeString(strings.ReplaceAll(text, ":", ""))
		copy(f[6*i:], raw)
	}
	return f
}

// all probes the router and returns the outcomes by probe.
func (x *like) all() (names []string, outcomes map[string]string) {
	outcomes = map[string]string{}
	note := func(name, outcome string) {
		names = append(names, name)
		outcomes[name] = outcome
	}
	udp := func(src, dst string, size int) []byte {
		if strings.Contains(dst, ":") {
			return testutil.UDP6(src, dst, 1000, 2000, make([]byte, size-48)...)
		}
		return testutil.UDP4(src, dst, 1000, 2000, make([]byte, size-28)...)
	}
	out := func(what, dst string, size int, alter ...func([]byte) []byte) {
		src := "10.1.0.2"
		if strings.Contains(dst, ":") {
			src = "fd01::2"
		}
		f := udp(src, dst, size)
		for _, a := range alter {
			f = a(f)
		}
		note("out, "+what, x.probe("client", addressed(f, routerLAN, clientMAC)))
	}
	df := func(f []byte) []byte { return testutil.Edit(f, 6, 0x40) }
	ttl1 := func(f []byte) []byte { return testutil.Edit(f, 8, 1) }
	out("policy-based", "10.2.0.5", 100)
	out("route-based", "10.21.0.5", 100)
	out("route-based with narrow policies", "10.22.0.5", 100)
	out("route-based, IPv6", "fd21::5", 100)
	out("an interface without a policy for the packet", "10.23.0.5", 100)
	out("an interface without a policy for IPv6", "fd22::5", 100)
	out("an interface and a policy without if_id", "10.2.0.200", 100)
	out("no interface, and policies of all interfaces", "10.30.0.5", 100)
	out("an interface that is down", "10.24.0.5", 100)
	out("a policy that blocks", "10.22.9.5", 100)
	out("a policy without a state", "10.22.8.5", 100)
	out("as long as the interface permits", "10.21.0.5", 1300, df)
	out("longer than the interface permits", "10.21.0.5", 1301, df)
	out("longer than the interface permits, IPv6", "fd21::5", 1301)
	out("longer than the tunnel permits", "10.22.0.5", 1490, df)
	out("TTL", "10.21.0.5", 100, ttl1)
	in := func(what, tunnel, src, dst string, alter ...func([]byte) []byte) {
		f := udp(src, dst, 100)
		for _, a := range alter {
			f = a(f)
		}
		if tunnel == "" {
			f = addressed(f, routerWAN, wireMAC)
		} else {
			f = x.sealed(tunnel, f)
		}
		note("in, "+what, x.probe("wire", f))
	}
	in("policy-based", "policy", "10.2.0.5", "10.1.0.2")
	in("route-based", "if41", "10.21.0.5", "10.1.0.2")
	in("route-based, IPv6", "if41", "fd21::5", "fd01::2")
	in("route-based from anywhere", "if41", "10.99.0.5", "10.1.0.2")
	in("route-based with narrow policies", "if42", "10.22.0.5", "10.1.0.2")
	in("the wrong if_id", "if42", "10.21.0.5", "10.1.0.2")
	in("no interface", "if43", "10.21.0.5", "10.1.0.2")
	in("an interface that is down", "if44", "10.24.0.5", "10.1.0.2")
	in("policy-based with the addresses of another tunnel", "policy", "10.21.0.5", "10.1.0.2")
	in("route-based with the addresses of a policy without if_id", "if41", "10.2.0.5", "10.1.0.2")
	in("cleartext", "", "10.30.0.5", "10.1.0.2")
	in("cleartext with the addresses of a policy without if_id", "", "10.2.0.5", "10.1.0.2")
	in("cleartext with the addresses of a route-based tunnel", "", "10.21.0.5", "10.1.0.2")
	in("from one interface to another without a policy", "if41", "10.21.0.5", "10.22.0.5")
	in("from one interface to plaintext", "if41", "10.21.0.5", "10.30.0.5")
	in("from one tunnel to the same", "if41", "10.21.0.5", "10.21.0.6")
	in("TTL", "if41", "10.21.0.5", "10.30.0.5", ttl1)
	for _, mode := range []string{"1", "2"} {
		if err := x.router.Sysctl("net.ipv4.conf.ipsec1.rp_filter", mode); err != nil {
			x.t.Fatal(err)
		}
		in("rp_filter "+mode+", by the route", "if41", "10.21.0.5", "10.1.0.2")
		in("rp_filter "+mode+", by another route", "if41", "10.22.0.5", "10.1.0.2")
		in("rp_filter "+mode+", without a route", "if41", "10.99.0.5", "10.1.0.2")
	}
	if err := x.router.Sysctl("net.ipv4.conf.ipsec1.rp_filter", "0"); err != nil {
		x.t.Fatal(err)
	}
	return names, outcomes
}

// likeDifferences are the known differences: while a tunnel has no SA its packets are dropped without an ICMP error,
// and a policy that blocks is reported as such.
var likeDifferences = map[string]string{
	"out, a policy without a state": "",
	"out, a policy that blocks":     "client gets ICMP 3/13 to 10.1.0.2, MTU 0",
}

// testLikeLinux probes Linux and warproute with the same packets, and compares what they send.
func testLikeLinux(t *testing.T, program string) {
	x := newLike(t)
	if err := x.router.Forwarding(true); err != nil {
		t.Fatal(err)
	}
	names, linux := x.all()
	if err := x.router.Forwarding(false); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "warproute.yaml")
	if err := os.WriteFile(file, []byte("ports: [{interface: lan0}, {interface: wan0}]\nengine: cpu\nipsec: {source: xfrm}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := labtest.Start(t, x.router, program, nil, "--config", file, "--metrics", "none")
	labtest.IP(t, x.router, "route get 10.21.0.5")
	_, ours := x.all()
	for _, name := range names {
		want, differs := likeDifferences[name]
		if !differs {
			want = linux[name]
		}
		if want == ours[name] && differs == (linux[name] != ours[name]) {
			t.Logf("%s: %s", name, linux[name])
		} else {
			t.Errorf("%s:\n  Linux     %s\n  warproute %s", name, linux[name], ours[name])
		}
	}
	t.Logf("%s", labtest.Run(t, x.router, program, "show", "drops", "--socket", r.Socket))

	// The host's packets on the interface do not leave by the SAs of the router.
	labtest.IP(t, x.router, "addr add 10.255.1.1/30 dev ipsec1")
	before := strings.TrimSpace(labtest.Run(t, x.router, "cat", "/sys/class/net/ipsec1/statistics/tx_packets"))
	x.router.Run("ping", "-c", "2", "-i", "0.1", "-W", "1", "10.21.0.5")
	if after := strings.TrimSpace(labtest.Run(t, x.router, "cat", "/sys/class/net/ipsec1/statistics/tx_packets")); after != before {
		t.Errorf("Linux has transmitted packets on ipsec1 itself: %s before, %s after", before, after)
	}
	filters := func() string {
		return strings.TrimSpace(labtest.Run(t, x.router, "tc", "filter", "show", "dev", "ipsec1", "egress"))
	}
	// The router adds the filter again if somebody deletes it.
	labtest.Run(t, x.router, "tc", "qdisc", "del", "dev", "ipsec1", "clsact")
	for end := time.Now().Add(10 * time.Second); filters() == ""; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the filter does not return")
		}
	}
	if err := r.Process.Stop(10 * time.Second); err != nil {
		t.Errorf("stop: %v", err)
	}
	if text := filters(); text != "" {
		t.Errorf("a filter is left: %s", text)
	}

	// After a kill, the filter stays, until the next router or `warproute release` removes it.
	r = labtest.Start(t, x.router, program, nil, "--config", file, "--metrics", "none")
	if err := r.Process.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-r.Process.Done()
	if filters() == "" {
		t.Error("the filter is gone with a killed router")
	}
	labtest.Run(t, x.router, program, "release")
	if text := filters(); text != "" {
		t.Errorf("a filter is left after release: %s", text)
	}
}
