package e2e

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// effect is the time within which Linux's changes take effect in the router.
const effect = 100 * time.Millisecond

// fork is a topology with a second server, other, at wan1: 10.9.0.2 and fd09::2.
type fork struct {
	*lab.Topology
	other  *lab.Namespace
	router *router
	others []*watch // at its link, which a fault may replace
}

// newFork starts the router, with further lines of configuration, and resolves its neighbors.
func newFork(t *testing.T, config ...string) *fork {
	t.Helper()
	f := &fork{Topology: newTopology(t, lab.VethOptions{})}
	f.addOther(t)
	f.other = f.Network["other"]
	f.router = startConfigured(t, f.Router, "ports: [{interface: lan0}, {interface: wan0}, {interface: wan1}]\n"+strings.Join(config, "\n"))
	f.warm(t)
	return f
}

// addOther adds the link to the second server.
func (f *fork) addOther(t *testing.T) {
	t.Helper()
	require.NoError(t, f.Add(lab.VethOptions{}, "other other0 10.9.0.2/24 fd09::2/64 -- router wan1 10.9.0.1/24 fd09::1/64"))
}

func (f *fork) ip(t *testing.T, commands ...string) {
	t.Helper()
	ip(t, f.Router, commands...)
}

// warm resolves the router's neighbors.
func (f *fork) warm(t *testing.T) {
	t.Helper()
	for _, a := range []string{"10.8.0.2", "fd08::2"} {
		mustPing(t, f.Client, netip.MustParseAddr(a), lab.PingOptions{})
	}
	// Only the neighbor entry matters, not the other server's way back.
	must(t, f.other, "ping", "-c1", "-W2", "10.9.0.1")
	must(t, f.other, "ping", "-c1", "-W2", "fd09::1")
	for _, a := range []string{"10.9.0.2", "fd09::2"} {
		f.ip(t, "neigh replace "+a+" lladdr "+macOf(t, f.other, "other0").String()+" dev wan1")
	}
}

// lastAt returns the time of the last arrival of a list.
func lastAt(l []arrival) time.Time { return l[len(l)-1].at }

// firstAfter returns the first arrival after a time.
func firstAfter(l []arrival, after time.Time) (arrival, bool) {
	for _, a := range l {
		if a.at.After(after) {
			return a, true
		}
	}
	return arrival{}, false
}

// load starts a load to dsts and records it at both servers.
func (f *fork) load(t *testing.T, dsts ...string) (l *load, server, other *watch) {
	t.Helper()
	server, other = startWatch(t, f.Server, lab.ServerLink), startWatch(t, f.other, "other0")
	time.Sleep(effect)
	l = startLoad(t, f.Topology, rate, dsts...)
	time.Sleep(200 * time.Millisecond)
	return l, server, other
}

// steady ends a load and fails the test unless all packets of the steady flows arrived in order at w, and
// none elsewhere.
func steady(t *testing.T, l *load, w, elsewhere *watch) {
	t.Helper()
	l.end()
	for _, flow := range []uint32{steady4, steady6} {
		sent := l.sent[flow].Load()
		if lost, disorder := missing(sent, w.of(flow)); len(lost) > 0 || disorder > 0 {
			t.Errorf("steady flow %d: %d of %d packets lost (first %v), %d out of order or twice", flow, len(lost), sent, lost[:min(len(lost), 5)], disorder)
		}
		if n := len(elsewhere.of(flow)); n > 0 {
			t.Errorf("steady flow %d: %d packets went astray", flow, n)
		}
	}
}
