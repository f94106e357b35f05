package gen

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// newLab returns ports at a client and a server, with Linux forwarding between them.
func newLab(t *testing.T) (top *lab.Topology, tx, rx *Port) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("needs root: network namespaces and AF_XDP sockets are made here")
	}
	top, err := lab.NewTopology(lab.VethOptions{})
	require.NoError(t, err)
	t.Cleanup(top.Close)
	require.NoError(t, top.Forwarding(true))
	mac, err := top.Server.MAC(lab.ServerLink)
	require.NoError(t, err)
	for _, a := range []netip.Addr{lab.Server4.Addr(), lab.Server6.Addr()} {
		require.NoError(t, top.Router.AddNeighbor(lab.WAN, a, mac))
	}
	return top, openIn(t, top.Client, lab.ClientLink), openIn(t, top.Server, lab.ServerLink)
}

func openIn(t *testing.T, ns *lab.Namespace, link string) (p *Port) {
	t.Helper()
	err := ns.Do(func() (err error) {
		p, err = OpenPort(link, 1)
		return err
	})
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

func TestRunThroughLinux(t *testing.T) {
	top, tx, rx := newLab(t)
	mac, err := top.Router.MAC(lab.LAN)
	require.NoError(t, err)
	four := Traffic{Src: Host(lab.Client4.Addr()), Dst: Host(lab.Server4.Addr()), Flows: 16, DstMAC: mac}
	six := Traffic{Src: Host(lab.Client6.Addr()), Dst: Host(lab.Server6.Addr()), Flows: 16, DstMAC: mac}
	o := Options{Rate: 5000, Count: 1000}
	for _, tr := range []Traffic{four, six} {
		for _, tr.IMIX = range []bool{false, true} {
			rep := mustRun(t, tx, rx, tr, o)
			if got := countsOf(rep.Receive); got.received != 1000 || got.lost+got.duplicates+got.corrupted > 0 {
				t.Errorf("%+v: %+v", tr, got)
			}
			if l := rep.Receive.Latency; l == nil || l.Min <= 0 || l.Max > 10*time.Second {
				t.Errorf("%+v: latency %+v", tr, l)
			}
		}
	}
	require.NoError(t, top.Forwarding(false))
	if got := countsOf(mustRun(t, tx, rx, four, o).Receive); got.lost != 1000 {
		t.Errorf("nothing forwards, and %+v", got)
	}
}

// Pings pass while the port is open and after it is closed, but not after a run received on it.
func TestLinuxReceivesUntilRun(t *testing.T) {
	top, tx, rx := newLab(t)
	mac, err := top.Router.MAC(lab.LAN)
	require.NoError(t, err)
	pings := func() int {
		res, _ := lab.Ping(top.Client, lab.Server4.Addr(), lab.PingOptions{Timeout: 200 * time.Millisecond})
		return res.Received
	}
	if got := pings(); got != 3 {
		t.Errorf("%d pings of 3 were answered with the ports open", got)
	}
	mustRun(t, tx, nil, Traffic{Src: Host(lab.Client4.Addr()), Dst: Host(lab.Server4.Addr()), DstMAC: mac}, Options{Count: 10})
	if got := pings(); got != 3 {
		t.Errorf("%d pings of 3 were answered after sending only", got)
	}
	mustRun(t, nil, rx, Traffic{}, Options{Duration: time.Millisecond})
	if got := pings(); got != 0 {
		t.Errorf("%d pings of 3 reached Linux past a port that receives", got)
	}
	for range 2 {
		require.NoError(t, rx.Close())
	}
	if got := pings(); got != 3 {
		t.Errorf("%d pings of 3 were answered after the port was closed", got)
	}
}

func TestOpenPortRejectsUnusableLinks(t *testing.T) {
	ns, err := lab.New("refusing")
	require.NoError(t, err)
	defer ns.Close()
	a, b := lab.End{Namespace: ns, Name: "a"}, lab.End{Namespace: ns, Name: "b"}
	require.NoError(t, lab.Veth(a, b, lab.VethOptions{Queues: 2}))
	refused := func(name string, cores int, want string) {
		t.Helper()
		err := ns.Do(func() error {
			p, err := OpenPort(name, cores)
			if err == nil {
				p.Close()
			}
			return err
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s for %d cores: error %v, want %q", name, cores, err, want)
		}
	}
	refused("none0", 1, "open port none0: look up the interface")
	refused("lo", 1, "no MAC address")
	refused("a", 3, "it has 2 (set with `ethtool -L a`)")
	require.NoError(t, ns.SetDown("b"))
	refused("b", 1, "ip link set b up")
	err = ns.Do(func() error { // Linux says so within a second
		for range 200 {
			if link, err := net.InterfaceByName("a"); err != nil || link.Flags&net.FlagRunning == 0 {
				return err
			}
			time.Sleep(10 * time.Millisecond)
		}
		return errors.New("link a has a carrier though its other end is down")
	})
	require.NoError(t, err)
	refused("a", 1, "no carrier")
}

func TestRunUsesAllQueues(t *testing.T) {
	ns, err := lab.New("queues")
	require.NoError(t, err)
	defer ns.Close()
	require.NoError(t, lab.Veth(lab.End{Namespace: ns, Name: "a"}, lab.End{Namespace: ns, Name: "b"}, lab.VethOptions{Queues: 3}))
	var tx, rx *Port
	err = ns.Do(func() (err error) {
		if tx, err = OpenPort("a", 3); err == nil {
			rx, err = OpenPort("b", 2)
		}
		return err
	})
	require.NoError(t, err)
	defer tx.Close()
	defer rx.Close()
	tr := testTraffic(32)
	tr.DstMAC = rx.MAC
	if got := countsOf(mustRun(t, tx, rx, tr, Options{Rate: 10_000, Count: 2000}).Receive); got != (counts{received: 2000}) {
		t.Errorf("%+v", got)
	}
}
