package mirror

import (
	"bytes"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
)

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startLogged starts the mirror with a log that the test reads.
func (w *world) startLogged() *logBuffer {
	w.t.Helper()
	log := &logBuffer{}
	w.m = w.logged(log, w.fib, Hooks{}, defaults)
	return log
}

func TestUnsupportedRoutesAreLogged(t *testing.T) {
	w := newWorld(t)
	w.ip("route add 20.0.0.0/8 via 10.3.0.2", "route add 20.1.0.0/16 via 10.3.0.2", "route add 20.2.0.0/16 via 10.3.0.2",
		"route add 41.0.0.0/24 encap seg6 mode encap segs fd02::9 dev wan", "route add 43.0.0.0/24 tos 0x10 via 10.1.0.2",
		"route add multicast 44.0.0.0/24 dev wan")
	log := w.startLogged()
	for _, want := range []string{
		`interface=oob routes=5 prefixes="10.3.0.0/24, 20.0.0.0/8, 20.1.0.0/16 and 2 more" hint="add the interface as a port`,
		`MPLS, SRv6, tunnels) are not supported: packets dropped as no_port" interface=wan routes=1 prefixes=41.0.0.0/24`,
		`by type of service are not supported: ignored" interface="" routes=1 prefixes=43.0.0.0/24`,
		`routes of type multicast have unicast prefixes: packets dropped as blackhole, as in Linux" interface="" routes=1 prefixes=44.0.0.0/24`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q", want)
		}
	}
	at := len(log.String())
	w.m.do(func() { w.m.reports.last = time.Now().Add(-reportEvery) })
	w.ip("route add 45.0.0.0/24 via 10.3.0.2", "route add 46.0.0.0/24 encap seg6 mode encap segs fd02::9 dev wan")
	for end := time.Now().Add(5 * time.Second); !strings.Contains(log.String()[at:], "46.0.0.0/24"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("routes that came later are not logged:\n%s", log.String()[at:])
		}
	}
	// A route is logged once, and reports are at least reportEvery apart.
	later := log.String()[at:]
	if strings.Count(later, "WARN") > 3 || strings.Contains(later, "20.0.0.0/8") || !strings.Contains(later, "prefixes=45.0.0.0/24") {
		t.Errorf("later:\n%s", later)
	}
	at = len(log.String())
	w.ip("route add 47.0.0.0/24 via 10.3.0.2")
	time.Sleep(1200 * time.Millisecond)
	if strings.Contains(log.String()[at:], "47.0.0.0/24") {
		t.Error("the next report comes at once")
	}
	if t.Failed() {
		t.Log(log.String())
	}

	// The text output has the same reasons.
	for addr, want := range map[string]Unsupported{"20.0.0.1": NoPort, "41.0.0.1": Encap, "44.0.0.1": MulticastType, "10.2.0.9": ""} {
		if info, ok := w.m.Lookup(netip.MustParseAddr(addr)); !ok || info.Unsupported != want {
			t.Errorf("%s: %q, want %q: %+v", addr, info.Unsupported, want, info)
		}
	}
	if v, err := w.m.Verify(); err != nil || v.Different != 0 {
		t.Errorf("the tables differ from what Linux has: %+v, %v", v, err)
	}
}

// Survey finds the routes that a mirror logs.
func TestSurvey(t *testing.T) {
	w := newWorld(t)
	w.ip("route add 20.0.0.0/8 via 10.3.0.2", "route add fd20::/64 via fd03::2", "route add 41.0.0.0/24 encap seg6 mode encap segs fd02::9 dev wan")
	var found []UnsupportedRoutes
	require.NoError(t, w.router.Do(func() (err error) {
		var ports []Port
		for _, name := range portNames {
			link, err := w.router.Link(name)
			require.NoError(t, err)
			ports = append(ports, Port{Name: name, Ifindex: link.Attrs().Index})
		}
		found, _, err = Survey(ports)
		return err
	}))
	got := map[string]int{}
	for _, u := range found {
		got[string(u.Reason)+" "+u.Dev] = u.Routes
	}
	if len(got) != 2 || got["no_port oob"] != 4 || got["encap wan"] != 1 { // and the two of oob itself
		t.Errorf("found %v", got)
	}
}

// The rule of strongSwan causes no warning unless its table has other next hops than main.
func TestCharonRuleIsSupported(t *testing.T) {
	w := newWorld(t)
	w.ip("route add default via 10.2.0.2", "rule add lookup 220 pref 220",
		"route add 10.60.0.0/16 via 10.2.0.2 table 220 proto static src 10.1.0.1", "route add throw 10.1.0.0/24 table 220")
	_, err := w.router.Run("ip", "-6", "rule", "add", "lookup", "220", "pref", "220")
	require.NoError(t, err)
	log := w.startLogged()
	quiet := func(when string) {
		t.Helper()
		w.m.do(w.m.checkCharon)
		if st := w.m.Status(); len(st.Warnings) != 0 || strings.Contains(log.String(), "220") {
			t.Fatalf("%s: warnings %q, log:\n%s", when, st.Warnings, log)
		}
	}
	quiet("with a route as in main")
	w.ip("route add 10.61.0.0/16 via 10.2.0.2 table 220 src 10.1.0.1")
	quiet("with another")
	w.ip("route add 10.62.0.0/16 via 10.1.0.2 table 220 src 10.1.0.1")
	w.m.do(w.m.checkCharon)
	if !strings.Contains(log.String(), `prefixes=10.62.0.0/16 hint="set charon.install_routes = no`) {
		t.Errorf("a route that leads elsewhere is not warned of:\n%s", log)
	}
	// A similar rule causes the warning of all rules.
	w.ip("rule add from 10.1.0.0/24 lookup 220 pref 221")
	if st := w.m.Status(); len(st.Warnings) != 2 || !strings.Contains(st.Warnings[1], "priority 221") {
		t.Errorf("warnings %q", st.Warnings)
	}
}

// Table 220 is also compared with more specific routes of main, which it would override.
func TestCharonTableIsComparedWithMoreSpecificRoutes(t *testing.T) {
	w := newWorld(t)
	w.ip("route add default via 10.2.0.2", "rule add lookup 220 pref 220", "route add 10.60.0.0/16 via 10.2.0.2 table 220", "route add 10.60.7.0/24 via 10.1.0.2")
	if log := w.startLogged(); !strings.Contains(log.String(), "prefixes=10.60.0.0/16") {
		t.Errorf("not warned of:\n%s", log)
	}
}
