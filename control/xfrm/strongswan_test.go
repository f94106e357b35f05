package xfrm

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
)

// tunnel is a tunnel of which one end is a gateway's:
//
//	left: charon, XFRM, the mirror            right: charon, XFRM, Linux's ESP
//	10.1.0.1 (lo)   192.0.2.1 ──veth── 192.0.2.2   10.2.0.1 (lo)
type tunnel struct {
	left, right *end
	gateway     gateway.Gateway
	mirror      *Mirror
	quiescent   atomic.Int32
}

// end is one of the two hosts.
type end struct {
	*lab.Namespace
	t             *testing.T
	dir           string
	outer, remote netip.Addr
	inner, beyond netip.Addr
}

// testStrongSwan has strongSwan, as Debian packs it, bring up a tunnel, rekey it and take
// it down, over the XFRM of a kernel that has no part in the packets of one end.
func testStrongSwan(t *testing.T) {
	x := newTunnel(t)
	x.agrees("before there is a tunnel", 0)

	x.left.swanctl("--initiate", "--child", "net")
	x.agrees("when the tunnel is up", 2)
	w := newWire(t, x)
	w.exchange(10)

	// Linux learns of the use, and its key daemon from it.
	x.eventually("strongSwan counts the packets", func() error {
		return contains(x.left.swanctl("--list-sas", "--raw"), "packets-in=10 ", "packets-out=10 ")
	})

	// Linux sends by the state, too: the gateway leaves its numbers behind.
	first := x.outbound()
	if _, err := x.left.Run("ping", "-c", "3", "-i", "0.01", "-I", x.left.inner.String(), x.left.beyond.String()); err != nil {
		t.Fatal(err)
	}
	first.Count(0, 1, 60)
	x.eventually("the gateway is ahead of Linux", func() error {
		if n := first.Sequence(); n != 13+linuxGap {
			return fmt.Errorf("its last number is %d", n)
		}
		return nil
	})
	w.exchange(10)

	x.left.swanctl("--rekey", "--child", "net")
	x.eventually("the new association is used", func() error {
		w.exchange(1)
		return differs(first, x.outbound())
	})
	x.agrees("after rekeying", 2)
	w.exchange(10)

	// Our counters reach a limit, unknown to Linux: strongSwan is notified.
	second := x.outbound()
	x.eventually("the soft limit has the tunnel rekeyed", func() error {
		w.exchange(20)
		return differs(second, x.outbound())
	})
	x.agrees("after rekeying by limit", 2)
	w.exchange(10)

	x.left.swanctl("--terminate", "--ike", "peer")
	x.agrees("when the tunnel is down", 0)
	if rules := x.gateway.Rules(); len(rules) != 0 {
		t.Errorf("%d policies are left", len(rules))
	}
	x.eventually("the keys of 6 SAs are destroyed", func() error {
		if n := x.quiescent.Load(); n < 6 { // tunnels count, too
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	if s := x.mirror.Stats(); s.Malformed+s.Resyncs != 0 || s.RefusedStates+s.RefusedPolicies+s.Undecided != 0 {
		t.Errorf("the mirror did not understand all: %+v", s)
	}
}

func newTunnel(t *testing.T) *tunnel {
	addr := netip.MustParseAddr
	x := &tunnel{
		left:  newEnd(t, "left", addr("192.0.2.1"), addr("192.0.2.2"), addr("10.1.0.1"), addr("10.2.0.1")),
		right: newEnd(t, "right", addr("192.0.2.2"), addr("192.0.2.1"), addr("10.2.0.1"), addr("10.1.0.1")),
	}
	require.NoError(t, lab.Veth(lab.End{Namespace: x.left.Namespace, Name: "veth"}, lab.End{Namespace: x.right.Namespace, Name: "veth"}, lab.VethOptions{}))
	for _, e := range []*end{x.left, x.right} {
		e.must(e.AddAddr("veth", netip.PrefixFrom(e.outer, 24)))
		e.must(e.AddAddr("lo", netip.PrefixFrom(e.inner, 32)))
		e.must(e.AddRoute(netip.PrefixFrom(e.beyond, 24).Masked(), e.remote))
	}
	x.left.startCharon("rekey_packets = 100\n\t\trand_packets = 0\n\t\tlife_packets = 100000")
	x.right.startCharon("")
	hooks := Hooks{
		IsLocal: func(a netip.Addr) bool { return a == x.left.outer },
		Quiescent: func(f func()) {
			time.AfterFunc(50*time.Millisecond, func() { f(); x.quiescent.Add(1) }) // a packet that is being sent is
		},
	}
	x.left.must(x.left.Do(func() (err error) {
		x.mirror, err = Start(&x.gateway, 1, hooks, nil)
		return err
	}))
	t.Cleanup(func() { x.mirror.Close() })
	for _, e := range []*end{x.left, x.right} {
		e.swanctl("--load-all", "--file", filepath.Join(e.dir, "swanctl.conf"))
	}
	return x
}

func newEnd(t *testing.T, name string, outer, remote, inner, beyond netip.Addr) *end {
	ns, err := lab.New(name)
	require.NoError(t, err)
	t.Cleanup(func() { ns.Close() })
	return &end{ns, t, t.TempDir(), outer, remote, inner, beyond}
}

func (e *end) must(err error) {
	e.t.Helper()
	require.NoError(e.t, err)
}

// startCharon starts the key daemon. Its pid file is always in /run: it has one of its own.
func (e *end) startCharon(limits string) {
	e.write("strongswan.conf", `
charon {
	load = openssl random nonce hmac kdf socket-default kernel-netlink vici
	install_routes = no
	delete_rekeyed_delay = 1
	filelog { stderr { default = 0 } }
	plugins { vici { socket = `+e.socket()+` } }
}
`)
	e.write("swanctl.conf", fmt.Sprintf(`
connections { peer {
	local_addrs = %v
	remote_addrs = %v
	proposals = aes128-sha256-ecp256
	local { auth = psk }
	remote { auth = psk }
	children { net {
		local_ts = %v
		remote_ts = %v
		esp_proposals = aes128gcm16-ecp256-esn
		%s
		replay_window = 128
	} }
} }
secrets { ike { secret = "the quick brown fox" } }
`, e.outer, e.remote, netip.PrefixFrom(e.inner, 24).Masked(), netip.PrefixFrom(e.beyond, 24).Masked(), limits))
	cmd := exec.Command("sh", "-c", "mount -t tmpfs tmpfs /run && exec /usr/lib/ipsec/charon")
	cmd.Env = append(os.Environ(), "STRONGSWAN_CONF="+filepath.Join(e.dir, "strongswan.conf"))
	cmd.Stderr = os.Stderr
	p, err := e.Start(cmd)
	e.must(err)
	e.t.Cleanup(func() { p.Stop(5 * time.Second) })
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(strings.TrimPrefix(e.socket(), "unix://")); err == nil {
			return
		}
		if time.Now().After(end) {
			e.t.Fatal("charon does not come up (are strongswan-charon and libstrongswan-standard-plugins installed?)")
		}
	}
}

func (e *end) socket() string { return "unix://" + filepath.Join(e.dir, "vici") }

func (e *end) write(name, text string) {
	e.must(os.WriteFile(filepath.Join(e.dir, name), []byte(text), 0o600))
}

func (e *end) swanctl(command string, args ...string) string {
	e.t.Helper()
	args = append([]string{"SWANCTL_DIR=" + e.dir, "swanctl", command, "--uri", e.socket()}, args...)
	out, err := e.Run("env", args...)
	e.must(err)
	return out
}

// eventually waits until something is so.
func (x *tunnel) eventually(what string, check func() error) {
	x.left.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			x.left.t.Fatalf("%s: not so: %v", what, err)
		}
	}
}

func contains(text string, parts ...string) error {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return fmt.Errorf("%q is not in %q", p, text)
		}
	}
	return nil
}

func differs(old, now *ipsec.SA) error {
	if now == nil || now == old {
		return fmt.Errorf("the association in use is %p", now)
	}
	return nil
}

// outbound returns the association that packets to the right leave by.
func (x *tunnel) outbound() *ipsec.SA {
	f := gateway.FlowIPv4(echo(x.left.inner, x.left.beyond, 0))
	s, _ := x.gateway.LookupOutbound(&f)
	return s
}

// agrees checks that the gateway has, of states and policies, what `ip xfrm` shows, and
// that there are so many states.
func (x *tunnel) agrees(when string, states int) {
	x.left.t.Helper()
	x.eventually(when, func() error {
		want := x.shown()
		var got []string
		x.mirror.Do(func() {
			for s := range x.gateway.All {
				c := s.Config()
				got = append(got, fmt.Sprintf("state %v to %v spi %#08x %s %s esn %v %s", c.Src, c.Dst, c.SPI, c.Mode, c.Suite, c.ESN, x.gateway.TunnelName(c.Tunnel)))
			}
			for _, r := range x.gateway.Rules() {
				got = append(got, fmt.Sprintf("policy %s %v %v %v %s", r.Direction, r.Src, r.Dst, r.Action, r.Name))
			}
		})
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("the gateway has\n%s\nand Linux\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if n := strings.Count(strings.Join(got, "\n"), "state "); n != states {
			return fmt.Errorf("there are %d states, want %d", n, states)
		}
		return nil
	})
}

var (
	stateText  = regexp.MustCompile(`(?m)^src (\S+) dst (\S+)\n\s+proto esp spi (0x\w+)(?:\(\d+\))? reqid (\d+)(?:\(\S+\))? mode tunnel\n(?:.*\n)*?.*aead rfc4106\(gcm\(aes\)\) 0x\w{40} 128\n`)
	policyText = regexp.MustCompile(`(?m)^src (\S+) dst (\S+) \n\s+dir (in|out|fwd) .*\n\s+tmpl src (\S+) dst (\S+)\n\s+proto esp (?:spi \S+ )?reqid (\d+)(?:\(\S+\))? mode tunnel`)
)

// shown is what `ip xfrm` shows, in the words of agrees.
func (x *tunnel) shown() (lines []string) {
	run := func(what string) string {
		out, err := x.left.Run("ip", "xfrm", what)
		x.left.must(err)
		return out
	}
	for _, m := range stateText.FindAllStringSubmatch(run("state"), -1) {
		lines = append(lines, fmt.Sprintf("state %s to %s spi %s tunnel aes128gcm16 esn true %s to %s esp tunnel reqid %s", m[1], m[2], m[3], m[1], m[2], m[4]))
	}
	for _, m := range policyText.FindAllStringSubmatch(run("policy"), -1) {
		direction := "in" // also for fwd
		if m[3] == "out" {
			direction = "out"
		}
		lines = append(lines, fmt.Sprintf("policy %s %s %s protect %s to %s esp tunnel reqid %s", direction, m[1], m[2], m[4], m[5], m[6]))
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// wire is where the gateway's packets go out and come in, beside Linux.
type wire struct {
	t    *testing.T
	x    *tunnel
	send int // a raw socket
	hear int // a packet socket
	seq  uint16
}

func newWire(t *testing.T, x *tunnel) *wire {
	w := &wire{t: t, x: x}
	x.left.must(x.left.Do(func() (err error) {
		if w.send, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW); err != nil {
			return err
		}
		const ethIP = unix.ETH_P_IP>>8 | unix.ETH_P_IP<<8&0xff00
		if w.hear, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, ethIP); err != nil {
			return err
		}
		return unix.SetsockoptTimeval(w.hear, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2})
	}))
	t.Cleanup(func() { unix.Close(w.send); unix.Close(w.hear) })
	return w
}

// exchange sends echo requests through the gateway's tunnel, and has it open the answers
// that the other end's Linux seals. None may be lost.
func (w *wire) exchange(n int) {
	w.t.Helper()
	for range n {
		w.seq++
		p := echo(w.x.left.inner, w.x.left.beyond, w.seq)
		f := gateway.FlowIPv4(p)
		s, e := w.x.gateway.LookupOutbound(&f)
		if e != ipsec.OK {
			w.t.Fatalf("packet %d: %v", w.seq, e)
		}
		const room = 128 // in front, for headers
		buf := make([]byte, 512)
		copy(buf[room:], p)
		at, size, e := s.Encapsulate(0, buf, room, len(p))
		if e != ipsec.OK {
			w.t.Fatalf("packet %d: %v", w.seq, e)
		}
		require.NoError(w.t, unix.Sendto(w.send, buf[at:at+size], 0, &unix.SockaddrInet4{Addr: w.x.left.remote.As4()}))
		w.answer()
	}
}

// inbound returns the association that a packet came by. Linux may have a new one for a
// moment longer than the gateway, which leaves packets without association to Linux: here
// they wait.
func (w *wire) inbound(spi uint32, dst netip.Addr) *ipsec.SA {
	w.t.Helper()
	if s := w.x.gateway.Inbound(spi, dst); s != nil {
		return s
	}
	for start := time.Now(); time.Since(start) < time.Second; time.Sleep(time.Millisecond) {
		if s := w.x.gateway.Inbound(spi, dst); s != nil {
			w.t.Logf("packet %d was %v earlier than its association", w.seq, time.Since(start))
			return s
		}
	}
	w.t.Fatalf("packet %d: no association has SPI %#x", w.seq, spi)
	return nil
}

// answer waits for the answer to the last request.
func (w *wire) answer() {
	w.t.Helper()
	buf := make([]byte, 2048)
	for {
		var from unix.Sockaddr
		n, err := testutil.Again(func() (n int, err error) {
			n, from, err = unix.Recvfrom(w.hear, buf, 0)
			return n, err
		})
		if err != nil {
			w.t.Fatalf("packet %d is lost: %v", w.seq, err)
		}
		spi, _, ok := ipsec.Inbound(buf[:n])
		if link, isLink := from.(*unix.SockaddrLinklayer); !ok || !isLink || link.Pkttype != unix.PACKET_HOST {
			continue
		}
		s := w.inbound(spi, ipsec.Destination(buf[:n]))
		at, n, e := s.Decapsulate(0, buf, 0, n)
		if e != ipsec.OK {
			w.t.Fatalf("packet %d: %v", w.seq, e)
		}
		f := gateway.FlowIPv4(buf[at : at+n])
		if e := w.x.gateway.CheckInbound(&f, s); e != ipsec.OK {
			w.t.Fatalf("packet %d: %v", w.seq, e)
		}
		if got := uint16(buf[at+26])<<8 | uint16(buf[at+27]); got == w.seq && buf[at+20] == 0 {
			return
		}
	}
}
