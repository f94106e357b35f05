package lab

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

func newNamespace(t *testing.T, name string) *Namespace {
	t.Helper()
	ns, err := New(name)
	require.NoError(t, err)
	t.Cleanup(func() { ns.Close() })
	return ns
}

func newTopology(t *testing.T, opts VethOptions) *Topology {
	t.Helper()
	top, err := NewTopology(opts)
	require.NoError(t, err)
	t.Cleanup(top.Close)
	return top
}

func TestDoEntersAndLeavesTheNamespace(t *testing.T) {
	ns := newNamespace(t, "a")
	before, err := netns.Get()
	require.NoError(t, err)
	defer before.Close()
	failure := errors.New("failure")
	err = ns.Do(func() error {
		inside, err := netns.Get()
		if err != nil {
			return err
		}
		defer inside.Close()
		if inside.Equal(before) {
			t.Error("Do did not enter the namespace")
		}
		return failure
	})
	if err != failure {
		t.Errorf("Do returned %v, want the function's error", err)
	}
	after, err := netns.Get()
	require.NoError(t, err)
	defer after.Close()
	if !after.Equal(before) {
		t.Errorf("after Do the thread is in %v, before in %v", after, before)
	}
}

func TestDoCanBeNested(t *testing.T) {
	a, b := newNamespace(t, "a"), newNamespace(t, "b")
	err := a.Do(func() error {
		outer, _ := netns.Get()
		defer outer.Close()
		if err := b.Do(func() error { return nil }); err != nil {
			return err
		}
		back, _ := netns.Get()
		defer back.Close()
		if !back.Equal(outer) {
			t.Error("the inner Do did not come back to the outer namespace")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestProcessesSeeTheirNamespace(t *testing.T) {
	ns := newNamespace(t, "a")
	require.NoError(t, Veth(End{Namespace: ns, Name: "here"}, End{Namespace: ns, Name: "there"}, VethOptions{}))
	out, err := ns.Run("ls", "/sys/class/net", "/proc/sys/net/ipv4/conf")
	require.NoError(t, err)
	if n := strings.Count(out, "there"); n != 2 {
		t.Errorf("want the link in /sys and in /proc, got:\n%s", out)
	}
	if host, _ := os.ReadFile("/sys/class/net/there/ifindex"); host != nil {
		t.Error("the link leaked into this process's /sys")
	}
}

func TestRunReportsFailureAndOutput(t *testing.T) {
	ns := newNamespace(t, "a")
	_, err := ns.Run("sh", "-c", "echo reason >&2; exit 3")
	if err == nil || !strings.Contains(err.Error(), "reason") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got error %v, want the exit status and what was printed", err)
	}
}

func TestStopKillsProcessesThatIgnoreSIGTERM(t *testing.T) {
	ns := newNamespace(t, "a")
	p, err := ns.Start(exec.Command("sh", "-c", "trap '' TERM; while :; do sleep 0.01; done"))
	require.NoError(t, err)
	time.Sleep(50 * time.Millisecond) // for the trap to be set
	if err := p.Stop(50 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "was killed") {
		t.Errorf("got %v, want that it was killed", err)
	}
}

func TestVethQueuesMTUAndMAC(t *testing.T) {
	a, b := newNamespace(t, "a"), newNamespace(t, "b")
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 7}
	err := Veth(End{Namespace: a, Name: "x0"}, End{Namespace: b, Name: "x1", MAC: mac}, VethOptions{Queues: 3, MTU: 1400})
	require.NoError(t, err)
	for _, end := range []struct {
		ns   *Namespace
		name string
	}{{a, "x0"}, {b, "x1"}} {
		link, err := end.ns.Link(end.name)
		require.NoError(t, err)
		if at := link.Attrs(); at.NumRxQueues != 3 || at.NumTxQueues != 3 || at.MTU != 1400 || at.Flags&net.FlagUp == 0 {
			t.Errorf("%s: %d and %d queues, MTU %d, flags %v; want 3, 3, 1400, up", end.name, at.NumRxQueues, at.NumTxQueues, at.MTU, at.Flags)
		}
	}
	if got, err := b.MAC("x1"); err != nil || got.String() != mac.String() {
		t.Errorf("MAC %v, %v; want %v", got, err, mac)
	}
	err = Veth(End{Namespace: a, Name: "x0"}, End{Namespace: b, Name: "x2"}, VethOptions{})
	if err == nil || !strings.Contains(err.Error(), "x0") {
		t.Errorf("a second x0 gives %v, want an error that names it", err)
	}
}

func TestMovedLinksAreInTheOtherNamespace(t *testing.T) {
	top := newTopology(t, VethOptions{})
	require.NoError(t, top.Client.Move(ClientLink, top.Server))
	if _, err := top.Client.Link(ClientLink); err == nil {
		t.Error("the link is still in its first namespace")
	}
	if _, err := top.Server.Link(ClientLink); err != nil {
		t.Error(err)
	}
	if err := top.Client.Move("none", top.Server); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("moving a missing link: %v", err)
	}
}

func TestSysfsSetsTheNamespacesOwnLink(t *testing.T) {
	top := newTopology(t, VethOptions{})
	require.NoError(t, top.Router.Sysfs("class/net/lan0/gro_flush_timeout", "12345"))
	out, err := top.Router.Run("cat", "/sys/class/net/lan0/gro_flush_timeout")
	if err != nil || strings.TrimSpace(out) != "12345" {
		t.Errorf("got %q, %v; want 12345", out, err)
	}
	if err := top.Client.Sysfs("class/net/lan0/gro_flush_timeout", "1"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the client's namespace has no lan0, but writing to it gives %v", err)
	}
}

func TestForwardingIsOffByDefault(t *testing.T) {
	top := newTopology(t, VethOptions{})
	quick := PingOptions{Count: 1, Timeout: 100 * time.Millisecond}
	for _, to := range []netip.Addr{Server4.Addr(), Server6.Addr()} {
		if _, err := Ping(top.Client, to, quick); err == nil {
			t.Errorf("ping %v crosses a router that does not forward", to)
		}
	}
	require.NoError(t, top.Forwarding(true))
	for _, to := range []netip.Addr{LAN4.Addr(), LAN6.Addr(), Server4.Addr(), Server6.Addr()} {
		r, err := Ping(top.Client, to, PingOptions{})
		if err != nil {
			t.Error(err)
		}
		if r.Sent != 3 || r.Received != 3 || r.Min <= 0 || r.Min > r.Mean || r.Mean > r.Max {
			t.Errorf("ping %v: %+v", to, r)
		}
	}
	for _, to := range []netip.Addr{Server4.Addr(), Server6.Addr()} {
		r, err := Transfer(top.Client, top.Server, to, 1<<20, 5*time.Second)
		if err != nil || r.Bytes != 1<<20 {
			t.Errorf("transfer: %+v, %v", r, err)
		}
	}
}

func TestPingNamesICMPErrors(t *testing.T) {
	top := newTopology(t, VethOptions{})
	require.NoError(t, top.Forwarding(true))
	_, err := Ping(top.Client, Server4.Addr(), PingOptions{Count: 1, TTL: 1})
	var icmpErr *ICMPError
	if !errors.As(err, &icmpErr) || icmpErr.Type != ipv4.ICMPTypeTimeExceeded || icmpErr.From.String() != "10.7.0.1" {
		t.Errorf("a TTL of 1 gives %v, want time exceeded from the router", err)
	}
}

// The raw socket of a ping receives all ICMP errors of the namespace, of which those about other packets are ignored.
func TestPingIgnoresErrorsAboutOtherPackets(t *testing.T) {
	top := newTopology(t, VethOptions{})
	require.NoError(t, top.Forwarding(true))
	require.NoError(t, top.Router.Sysctl("net.ipv4.icmp_ratemask", "0"))
	var conn net.PacketConn
	require.NoError(t, top.Client.Do(func() (err error) {
		conn, err = net.ListenPacket("udp4", ":0")
		return err
	}))
	defer conn.Close()
	require.NoError(t, ipv4.NewPacketConn(conn).SetTTL(1))
	stop := make(chan struct{})
	var sending sync.WaitGroup
	defer sending.Wait()
	defer close(stop)
	sending.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				_, _ = conn.WriteTo([]byte("x"), &net.UDPAddr{IP: Server4.Addr().AsSlice(), Port: 9}) // fails with the errors that it causes
			}
		}
	})
	for _, size := range []int{56, 3000} {
		if r, err := Ping(top.Client, Server4.Addr(), PingOptions{Count: 50, Interval: time.Millisecond, Size: size}); err != nil || r.Received != 50 {
			t.Errorf("size %d: %+v, %v", size, r, err)
		}
	}
	for _, to := range []netip.Addr{Server4.Addr(), Server6.Addr()} {
		for _, size := range []int{56, 3000} {
			var e *ICMPError
			if _, err := Ping(top.Client, to, PingOptions{Count: 1, TTL: 1, Size: size}); !errors.As(err, &e) {
				t.Errorf("ping %v with TTL 1 and size %d: %v", to, size, err)
			}
		}
	}
}

func TestTransferTimesOut(t *testing.T) {
	top := newTopology(t, VethOptions{})
	start := time.Now()
	_, err := Transfer(top.Client, top.Server, Server4.Addr(), 1<<20, 200*time.Millisecond)
	if err == nil {
		t.Error("a transfer across a router that does not forward succeeds")
	}
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("a timeout of 200ms took %v", d)
	}
}

func TestCloseIsFinalAndIdempotent(t *testing.T) {
	ns := newNamespace(t, "a")
	require.NoError(t, ns.Close())
	if err := ns.Close(); err != nil {
		t.Errorf("the second Close gives %v", err)
	}
	if err := ns.Do(func() error { return nil }); err == nil {
		t.Error("a closed namespace can be entered")
	}
}

// An IPv6 address accepts packets when AddAddr returns, also on a busy kernel.
func TestAddAddrWaitsForTheLocalRoute(t *testing.T) {
	ns, err := New("own")
	require.NoError(t, err)
	defer ns.Close()
	require.NoError(t, Veth(End{Namespace: ns, Name: "a"}, End{Namespace: ns, Name: "b"}, VethOptions{}))
	stop := make(chan struct{})
	var busy sync.WaitGroup
	defer busy.Wait()
	defer close(stop)
	for range 4 { // which contend for the lock that the kernel's worker needs
		busy.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if other, err := New("other"); err == nil {
					other.Close()
				}
			}
		})
	}
	late := 0
	for i := range 50 {
		addr := netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 7, 14: 1, 15: byte(i)}), 64)
		require.NoError(t, ns.AddAddr("a", addr))
		if routes, err := ns.Netlink().RouteGet(addr.Addr().AsSlice()); err != nil || routes[0].Type != unix.RTN_LOCAL {
			late++
		}
	}
	if late > 0 {
		t.Errorf("%d of 50 addresses were not Linux's yet when they had been added", late)
	}
}
