package e2e

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

var (
	inner4 = [2]netip.Addr{netip.MustParseAddr("10.7.0.2"), netip.MustParseAddr("10.9.0.2")}
	inner6 = [2]netip.Addr{netip.MustParseAddr("fd07::2"), netip.MustParseAddr("fd09::2")}
)

// Linux never forwards a protected packet of any format in plaintext past a gateway, despite
// changes of settings, ports and the gateway.
func TestGatewaySendsNothingInCleartext(t *testing.T) {
	t.Run("IP options", func(t *testing.T) {
		l := newLeakLab(t)
		r := l.start()
		l.linuxForwards(true)
		l.send(l.frame(l.mac, nil, false, 4))
		l.finish()
		l.expectTransit(r, "transit_ipv4_options")
	})
	t.Run("VLAN tags", func(t *testing.T) {
		l := newLeakLab(t)
		r := l.start()
		l.linuxForwards(true)
		l.send(l.frame(l.mac, priorityTag, false, 0), l.frame(l.mac, priorityTag, true, 0))
		l.finish()
		l.expectTransit(r, "transit_vlan")
	})
	t.Run("other unicast MACs", func(t *testing.T) {
		l := newLeakLab(t)
		r := l.start()
		ip(t, l.Router, "link add mv0 link "+lab.LAN+" up type macvlan mode private")
		l.linuxForwards(true)
		mac := macOf(t, l.Router, "mv0")
		ip(t, l.Router, "link set mv0 down") // one that is up is a MAC address of the port
		frames := [][]byte{l.frame(mac, nil, false, 0), l.frame(mac, nil, true, 0)}
		l.send(frames...)
		l.finish()
		l.expectTransit(r, "transit_other_mac")
		ip(t, l.Router, "link set mv0 up")
		l.send(frames...) // the gateway has stopped
		l.finish()
	})
	t.Run("MAC of a macvlan", func(t *testing.T) {
		l := newLeakLab(t)
		r := l.start()
		ip(t, l.Router, "link add mv0 link "+lab.LAN+" up type macvlan mode private")
		l.linuxForwards(true)
		mac := macOf(t, l.Router, "mv0")
		r.awaitLog("port MAC added")
		l.send(l.frame(mac, nil, false, 0), l.frame(mac, nil, true, 0))
		l.finish()
		if n := l.sealed.Load(); n < protected/2 {
			t.Errorf("%d of %d packets to the macvlan's address were encrypted", n, protected)
		}
	})
	t.Run("sysctl flips", func(t *testing.T) {
		l := newLeakLab(t)
		r := l.start()
		l.send(l.all()...)
		for i := range 8 {
			l.linuxForwards(i%2 == 0)
			l.sent(float64(i+1) / 8)
		}
		l.finish()
		for _, want := range []string{`msg="linux forwarding is on" port=lan0 family=ipv4`, `msg="linux forwarding is off" port=lan0 family=ipv6`} {
			r.awaitLog(want)
		}
		if l.sealed.Load() == 0 {
			t.Error("nothing was protected")
		}
	})
	t.Run("kill -9 under load", func(t *testing.T) {
		l := newLeakLab(t)
		r := l.start()
		l.linuxForwards(true)
		l.send(l.all()...)
		l.sent(0.2)
		kill(t, r.Process)
		l.finish()
		if l.sealed.Load() == 0 {
			t.Error("nothing was protected")
		}
		l.reachable("killed")
		if out, err := l.Router.Run(program, "doctor"); err != nil || !strings.Contains(out, "a stopped gateway still blocks Linux forwarding") {
			t.Errorf("doctor: %v\n%s", err, out)
		}
		l.sealed.Store(0)
		l.send(l.all()...)
		l.sent(0.1)
		l.start() // replaces the killed one
		l.finish()
		l.send(l.plain()...)
		l.finish()
		if l.sealed.Load() == 0 {
			t.Error("nothing was protected by the next gateway")
		}
	})
	t.Run("port re-creation", func(t *testing.T) {
		l := newLeakLab(t)
		r := l.start()
		sysctl(t, l.Router, "net.ipv4.conf.default.forwarding", "1")
		l.send(append(l.plain(), l.frame(l.mac, nil, false, 4))...)
		for i := range 3 {
			l.sent(float64(i) / 4)
			ip(t, l.Router, "link del "+lab.LAN)
			require.NoError(t, lab.Veth(lab.End{Namespace: l.Client, Name: lab.ClientLink}, lab.End{Namespace: l.Router, Name: lab.LAN, MAC: l.mac}, lab.VethOptions{}))
			r.awaitLogs("port reopened", i+1)
		}
		l.finish()
		if l.sealed.Load() == 0 {
			t.Error("nothing was protected")
		}
	})
	t.Run("start", func(t *testing.T) {
		l := newLeakLab(t)
		_, _ = l.Router.Run(program, "guard", "--config", l.config) // as at boot
		l.linuxForwards(true)
		if n := l.throughNew(); n > 0 {
			t.Errorf("%d packets left in cleartext by interfaces that were created before the start", n)
		}
		l.send(l.all()...)
		l.sent(0.1)
		l.start()
		l.finish()
		l.send(l.plain()...)
		l.finish()
		if l.sealed.Load() == 0 {
			t.Error("nothing was protected")
		}
	})
	t.Run("start while a port is missing", func(t *testing.T) {
		l := newLeakLab(t)
		text, err := os.ReadFile(l.config)
		if err == nil {
			err = os.WriteFile(l.config, bytes.Replace(text, []byte("ports: ["), []byte("ports: [{interface: dmz0}, "), 1), 0o600)
		}
		require.NoError(t, err)
		if out, err := l.Router.Run(program, "run", "--config", l.config); err == nil || !strings.Contains(out, `no interface "dmz0"`) {
			t.Fatalf("run: %v\n%s", err, out)
		}
		l.linuxForwards(true)
		l.send(l.all()...)
		l.finish()
	})
	t.Run("stop, and release", func(t *testing.T) {
		l := newLeakLab(t)
		r := l.start()
		l.linuxForwards(true)
		if out, err := l.Router.Run(program, "release"); err == nil || !strings.Contains(out, "a router runs on lan0, wan0") {
			t.Errorf("release beside a running gateway: %v\n%s", err, out)
		}
		l.send(l.all()...)
		l.sent(0.3)
		r.Stop()
		l.finish()
		if strings.Contains(r.Out.String(), "bypass netfilter rules") {
			t.Errorf("the gateway warns of its own rules:\n%s", r.Out)
		}
		l.reachable("stopped")
		if n := l.throughNew(); n > 0 {
			t.Errorf("%d packets left in cleartext by interfaces that were created after the stop", n)
		}
		must(t, l.Router, program, "release")
		l.send(l.all()...)
		<-l.ended
		time.Sleep(100 * time.Millisecond)
		if n := l.clear.Load(); n < protected/2 {
			t.Errorf("after the release, Linux forwarded %d packets of %d: the test may not count leaks", n, protected)
		}
		if n := l.throughNew(); n < protected/2 {
			t.Errorf("after the release, Linux forwarded %d packets of %d by new interfaces: the test may not count leaks", n, protected)
		}
	})
	t.Run("upgrade, and back", func(t *testing.T) {
		l := newLeakLab(t)
		next, err := nextProgram()
		require.NoError(t, err)
		u := startUpgrades(t, l.Router, "--config", l.config)
		l.linuxForwards(true)
		l.send(l.all()...)
		l.wanted.Store(1 << 30) // for 10 s
		u.upgraded(t, next, nextVersion)
		sealed := l.sealed.Load()
		u.upgraded(t, program, "")
		if before, after := sealed, l.sealed.Load(); before == 0 || after == before {
			t.Errorf("%d packets were protected until the upgrade, %d until the downgrade", before, after)
		}
		l.wanted.Store(0)
		l.finish()
		u.end()
	})
	t.Run("nftables flushed under a running gateway", func(t *testing.T) {
		l := newLeakLab(t)
		r := l.start()
		l.linuxForwards(true)
		l.send(l.all()...)
		for i := range 3 {
			l.sent(float64(i) / 4)
			must(t, l.Router, "nft", "flush", "ruleset")
			r.awaitLogs("nftables table was changed or removed", i+1)
		}
		kill(t, r.Process)
		l.finish()
	})
}

// throughNew sends packets to an interface on a port that no gateway knows, with a route over another one on the other port, and
// returns how many Linux forwarded.
func (l *leakLab) throughNew() int64 {
	l.t.Helper()
	ip(l.t, l.Router, "link add new0 link "+lab.LAN+" up type macvlan mode private", "link add new1 link "+lab.WAN+" up type macvlan mode private",
		"addr add 10.99.0.1/24 dev new1", fmt.Sprintf("neigh add 10.99.0.2 lladdr %v dev new1", macOf(l.t, l.Server, lab.ServerLink)), "route replace 10.9.0.0/16 via 10.99.0.2")
	before := l.clear.Load()
	l.send(l.frame(macOf(l.t, l.Router, "new0"), nil, false, 0))
	<-l.ended
	time.Sleep(100 * time.Millisecond)
	ip(l.t, l.Router, "route replace 10.9.0.0/16 via 10.8.0.2", "link delete new0", "link delete new1")
	return l.clear.Load() - before
}

func (r *router) awaitLog(text string) { r.T.Helper(); r.awaitLogs(text, 1) }

// awaitLogs waits until the router has logged a text a number of times.
func (r *router) awaitLogs(text string, times int) {
	r.T.Helper()
	eventually(r.T, 5*time.Second, fmt.Sprintf("the router logs %q %d times", text, times), func() bool {
		return strings.Count(r.Out.String(), text) >= times
	})
}
