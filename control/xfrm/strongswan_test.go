package xfrm

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
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

// testStrongSwan has strongSwan establish a tunnel, rekey it and delete it. At one end the gateway
// processes the packets in place of the kernel.
func testStrongSwan(t *testing.T) {
	x := newTunnel(t)
	x.agrees("before there is a tunnel", 0)

	x.left.swanctl("--initiate", "--child", "net")
	x.agrees("when the tunnel is up", 2)
	w := newWire(t, x)
	w.exchange(10)

	// The mirror reports the use to Linux, where the key daemon reads it.
	x.eventually("strongSwan counts the packets", func() error {
		return contains(x.left.swanctl("--list-sas", "--raw"), "packets-in=10 ", "packets-out=10 ")
	})

	// Linux also sends by the state: the gateway skips its numbers.
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

	// The gateway's counters reach a limit that Linux does not detect: the mirror notifies strongSwan.
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
	if s, loop, _ := x.mirror.Stats(); loop.Malformed+loop.Resyncs != 0 || s.RefusedStates+s.RefusedPolicies+s.Undecided != 0 {
		t.Errorf("the mirror refused or missed something: %+v, %+v", s, loop)
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
			time.AfterFunc(50*time.Millisecond, func() { f(); x.quiescent.Add(1) }) // time for packets in flight
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

// agrees checks that the gateway has the states and policies that `ip xfrm` shows, and the number
// of states.
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

// shown returns the output of `ip xfrm` in the format of agrees.
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
