package mirror

import (
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// world is a router's namespace with two ports and a link that is none:
//
//	   router         peer
//	10.1.0.1/24  lan ──── lan1
//	fd01::1/64
//	10.2.0.1/24  wan ──── wan1
//	fd02::1/64
//	10.3.0.1/24  oob ──── oob1      not a port
//	fd03::1/64
//
// The peer has no addresses except those that a test adds.
type world struct {
	t            testing.TB
	router, peer *lab.Namespace
	fib          *fib.FIB
	m            *Mirror

	mu     sync.Mutex // guards locals and events
	locals map[netip.Addr]int
	events []string

	refusePorts bool // result of PortBack; set before start
	spare       int  // free port numbers; set before start
	vrfs        bool // ports may be in VRFs; set before start
}

var portNames = []string{"lan", "wan"}

// portLabel is the name of a physical port, and the number of a logical one.
func portLabel(number int) string {
	if number < len(portNames) {
		return portNames[number]
	}
	return fmt.Sprintf("port%d", number)
}

// newWorld creates the namespaces without a mirror.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, fib: fib.New(1), locals: map[netip.Addr]int{}}
	w.router, w.peer = newNamespace(t, "router"), newNamespace(t, "peer")
	for i, name := range []string{"lan", "wan", "oob"} {
		w.join(name)
		for _, format := range []string{"10.%d.0.1/24", "fd%02d::1/64"} {
			require.NoError(t, w.router.AddAddr(name, netip.MustParsePrefix(fmt.Sprintf(format, i+1))))
		}
	}
	w.addressed()
	return w
}

// addressed waits until Linux has configured the IPv6 addresses.
func (w *world) addressed() {
	w.t.Helper()
	for range 200 {
		out, err := w.router.Run("ip", "-6", "route", "show", "table", "local")
		require.NoError(w.t, err)
		if strings.Contains(out, "fd01::1") && strings.Contains(out, "fd02::1") && strings.Contains(out, "fd03::1") {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	w.t.Fatal("the router's IPv6 addresses do not come up")
}

func newNamespace(t testing.TB, name string) *lab.Namespace {
	t.Helper()
	ns, err := lab.New(name)
	require.NoError(t, err)
	t.Cleanup(func() { ns.Close() })
	return ns
}

// join creates a link to the peer.
func (w *world) join(name string) {
	w.t.Helper()
	require.NoError(w.t, lab.Veth(lab.End{Namespace: w.router, Name: name}, lab.End{Namespace: w.peer, Name: name + "1"}, lab.VethOptions{}))
}

// start starts the world's mirror.
func (w *world) start() *world {
	w.t.Helper()
	return w.startWith(defaults)
}

func (w *world) startWith(opts options) *world {
	w.t.Helper()
	w.m = w.mirror(w.fib, Hooks{
		VRFs:        w.vrfs,
		AddLocal:    func(ip netip.Addr) error { w.note(func() { w.locals[ip]++ }); return nil },
		DeleteLocal: func(ip netip.Addr) error { w.note(func() { w.locals[ip]-- }); return nil },
		PortChanged: func(port int, mac [6]byte, mtu int, up bool) {
			w.note(func() {
				w.events = append(w.events, fmt.Sprintf("%s %v mtu %d up %v", portLabel(port), toMAC(mac), mtu, up))
			})
		},
		PortAdded: func(p LogicalPort) {
			w.note(func() {
				w.events = append(w.events, fmt.Sprintf("port%d is %s, %v on %s", p.Number, p.Name, p.Tag, portLabel(p.Parent)))
			})
		},
		PortRenamed: func(port int, name string) {
			w.note(func() { w.events = append(w.events, fmt.Sprintf("%s is %s", portLabel(port), name)) })
		},
		MACAdded: func(port int, mac [6]byte) {
			w.note(func() { w.events = append(w.events, fmt.Sprintf("%s has %v", portLabel(port), toMAC(mac))) })
		},
		MACDeleted: func(port int, mac [6]byte) {
			w.note(func() { w.events = append(w.events, fmt.Sprintf("%s lost %v", portLabel(port), toMAC(mac))) })
		},
		PortDeleted: func(port int) { w.note(func() { w.events = append(w.events, portLabel(port)+" deleted") }) },
		PortGone:    func(port int) { w.note(func() { w.events = append(w.events, portLabel(port)+" gone") }) },
		PortBack: func(port, _ int) bool {
			w.note(func() { w.events = append(w.events, portLabel(port)+" back") })
			return !w.refusePorts
		},
	}, opts)
	return w
}

func (w *world) note(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// mirror starts a mirror of the router into f.
func (w *world) mirror(f *fib.FIB, hooks Hooks, opts options) *Mirror {
	w.t.Helper()
	return w.logged(testWriter{w.t}, f, hooks, opts)
}

// logged is mirror with a log.
func (w *world) logged(log io.Writer, f *fib.FIB, hooks Hooks, opts options) (m *Mirror) {
	w.t.Helper()
	var ports []Port
	for _, name := range portNames {
		link, err := w.router.Link(name)
		require.NoError(w.t, err)
		ports = append(ports, Port{Name: name, Ifindex: link.Attrs().Index})
	}
	ports = append(ports, make([]Port, w.spare)...)
	require.NoError(w.t, w.router.Do(func() (err error) {
		m, err = start(f, ports, hooks, slog.New(slog.NewTextHandler(log, nil)), opts)
		return err
	}))
	w.t.Cleanup(func() { require.NoError(w.t, m.Close()) })
	return m
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// ip runs `ip` commands, one per line, in the router's namespace, and waits until the mirror has
// applied the changes.
func (w *world) ip(lines ...string) {
	w.t.Helper()
	if _, err := w.batch(w.router, lines...); err != nil {
		w.t.Fatal(err)
	}
	if w.m != nil {
		w.m.settle()
	}
}

// batch runs `ip` commands and continues after errors.
func (w *world) batch(ns *lab.Namespace, lines ...string) (string, error) {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "batch")
	require.NoError(w.t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return ns.Run("ip", "-force", "-batch", file)
}

// outcome returns what the FIB does with packets to an address: "lan 02:..", "lan ?" for an
// unresolved neighbor, "lan ?*64 wan ?*192" for a group, "blackhole", ... A route with an MTU ends
// with " mtu 1400".
func (w *world) outcome(addr string) string {
	w.t.Helper()
	return outcome(w.fib, netip.MustParseAddr(addr))
}

func outcome(f *fib.FIB, ip netip.Addr) string {
	lookup := f.IPv4.LookupPrefix
	if ip.Is6() {
		lookup = f.IPv6.LookupPrefix
	}
	_, id, _ := lookup(ip)
	return outcomeOf(f, id)
}

// outcomeFrom is outcome for packets that a port receives.
func outcomeFrom(f *fib.FIB, port uint16, ip netip.Addr) string {
	if ip.Is6() {
		return outcomeOf(f, f.LookupIPv6(port, ip.As16()))
	}
	b := ip.As4()
	return outcomeOf(f, f.LookupIPv4(port, binary.BigEndian.Uint32(b[:])))
}

func outcomeOf(f *fib.FIB, id fib.NextHopID) string {
	if id == 0 {
		return "none"
	}
	hop := f.NextHop(id)
	if hop.Kind() != fib.KindForward {
		return hop.Kind().String()
	}
	mtu := ""
	if hop.MTU() != 0 {
		mtu = fmt.Sprintf(" mtu %d", hop.MTU())
	}
	if !hop.Group() {
		return adjacencyOutcome(f, hop.Index()) + mtu
	}
	group := f.Words().Groups[int(hop.Index())*fib.Buckets:]
	share := map[string]int{}
	for i := range fib.Buckets {
		share[adjacencyOutcome(f, atomic.LoadUint32(&group[i]))]++
	}
	if len(share) == 1 {
		return adjacencyOutcome(f, atomic.LoadUint32(&group[0])) + mtu
	}
	var parts []string
	for _, way := range slices.Sorted(maps.Keys(share)) {
		parts = append(parts, fmt.Sprintf("%s*%d", way, share[way]))
	}
	return strings.Join(parts, " ") + mtu
}

func adjacencyOutcome(f *fib.FIB, id uint32) string {
	a := f.Adjacency(id)
	name := carrier(f, a.Port())
	if f.Port(a.Port()).MTU() == 0 {
		name += " down"
	}
	if !a.Resolved() {
		return name + " ?"
	}
	return name + " " + a.MAC().String()
}

// want checks the outcome for addresses.
func (w *world) want(addrsAndOutcomes ...string) {
	w.t.Helper()
	for i := 0; i < len(addrsAndOutcomes); i += 2 {
		if got := w.outcome(addrsAndOutcomes[i]); got != addrsAndOutcomes[i+1] {
			w.t.Errorf("packets to %s: %q, want %q", addrsAndOutcomes[i], got, addrsAndOutcomes[i+1])
		}
	}
}

// wantSoon is want for changes that Linux makes with a delay.
func (w *world) wantSoon(addr, want string) {
	w.t.Helper()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		w.m.settle()
		if got := w.outcome(addr); got == want {
			return
		} else if time.Now().After(end) {
			w.t.Fatalf("packets to %s: %q for 5 seconds, want %q", addr, got, want)
		}
	}
}
