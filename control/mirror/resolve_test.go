package mirror

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
)

// adjacencyOf returns the adjacency of packets to an address.
func (w *world) adjacencyOf(addr string) (uint32, netip.Addr) {
	w.t.Helper()
	ip := netip.MustParseAddr(addr)
	lookup := w.fib.IPv4.LookupPrefix
	if ip.Is6() {
		lookup = w.fib.IPv6.LookupPrefix
	}
	_, id, _ := lookup(ip)
	hop := w.fib.NextHop(id)
	if hop.Kind() != fib.KindForward || hop.Group() {
		w.t.Fatalf("packets to %v are not held: %v", ip, hop.Kind())
	}
	return hop.Index(), ip
}

func TestResolve(t *testing.T) {
	for _, test := range []struct{ name, dst string }{
		{"an IPv4 neighbor", "10.1.0.2"},
		{"an IPv6 neighbor", "fd01::2"},
		{"an IPv4 gateway", "20.0.0.1"},
		{"an IPv6 gateway", "fd20::1"},
		{"a link-local gateway", "fd21::1"},
		{"an IPv6 gateway of IPv4", "21.0.0.1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			require.NoError(t, w.peer.AddAddr("lan1", netip.MustParsePrefix("10.1.0.2/24")))
			require.NoError(t, w.peer.AddAddr("lan1", netip.MustParsePrefix("fd01::2/64")))
			require.NoError(t, w.peer.AddAddr("lan1", netip.MustParsePrefix("fe80::2/64")))
			w.ip("route add 20.0.0.0/8 via 10.1.0.2", "route add fd20::/16 via fd01::2", "route add fd21::/16 via fe80::2 dev lan",
				"route add 21.0.0.0/8 via inet6 fe80::2 dev lan")
			w.start()
			if got := w.outcome(test.dst); got != "lan ?" {
				t.Fatalf("before: %q", got)
			}
			mac, err := w.peer.MAC("lan1")
			require.NoError(t, err)
			w.m.Resolve(w.adjacencyOf(test.dst))
			w.wantSoon(test.dst, "lan "+mac.String())
		})
	}
}

func TestResolveOfFreedAdjacency(t *testing.T) {
	w := newWorld(t).start()
	for range 100 {
		w.m.Resolve(w.adjacencyOf("10.1.0.9"))
		w.m.Resolve(1<<30, netip.MustParseAddr("10.1.0.9")) // no such adjacency
	}
	w.m.Resolve(w.adjacencyOf("fd01::9"))
	adjacency, _ := w.adjacencyOf("10.1.0.9")
	w.m.Resolve(adjacency, netip.Addr{})
	w.m.settle()
	w.want("10.1.0.9", "lan ?", "fd01::9", "lan ?")
	var out string
	for range 100 { // the resolver has its own goroutine
		var err error
		out, err = w.router.Run("ip", "neigh", "show", "10.1.0.9")
		require.NoError(t, err)
		if strings.Contains(out, "INCOMPLETE") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("Linux does not look for the neighbor: %q", out)
}

func TestResolveIsBounded(t *testing.T) {
	asks := make(chan neighborID, 10*maxAsked)
	a := &resolver{asks: asks, asked: map[neighborID]struct{}{}}
	ask := func(n int) (asked int) {
		for i := range n {
			if a.ask(neighborID{1, netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})}) {
				asked++
			}
		}
		return asked
	}
	if got := ask(5); got != 5 {
		t.Errorf("asked for %d of 5 neighbors", got)
	}
	if got := ask(5); got != 0 {
		t.Errorf("asked again for %d of 5 neighbors in the same window", got)
	}
	if got := ask(1 << 16); got != maxAsked-5 {
		t.Errorf("a scan asked for %d neighbors in a window, want %d", got, maxAsked-5)
	}
	a.nextWindow()
	if got := ask(5); got != 5 {
		t.Errorf("asked for %d of 5 neighbors in the next window", got)
	}
}

func TestResolveNeverBlocks(t *testing.T) {
	w := newWorld(t).start()
	adjacency, _ := w.adjacencyOf("10.1.0.9")
	require.NoError(t, w.m.Close()) // requests are no longer received
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 3 * maxRequests {
			w.m.Resolve(adjacency, netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}))
		}
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("Resolve blocks")
	}
}

// Stale neighbors in use are probed, because Linux does not see forwarded packets: a failure or a
// new MAC address is detected.
func TestStaleNeighborsInUseAreChecked(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.peer.AddAddr("lan1", netip.MustParsePrefix("10.1.0.2/24")))
	require.NoError(t, w.router.Sysctl("net.ipv4.neigh.lan.delay_first_probe_time", "0")) // s
	require.NoError(t, w.router.Sysctl("net.ipv4.neigh.lan.retrans_time_ms", "50"))
	opts := defaults
	opts.refreshStale, opts.askEvery = 50*time.Millisecond, 20*time.Millisecond
	w.startWith(opts)
	w.ip("neigh add 10.1.0.2 dev lan lladdr 02:00:00:00:00:99 nud stale") // an outdated MAC address
	w.want("10.1.0.2", "lan 02:00:00:00:00:99")
	w.wantSoon("10.1.0.2", "lan ?") // the address was removed
	mac, err := w.peer.MAC("lan1")
	require.NoError(t, err)
	for end := time.Now().Add(10 * time.Second); w.outcome("10.1.0.2") != "lan "+mac.String(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("packets to 10.1.0.2: %q, want the new MAC address %v", w.outcome("10.1.0.2"), mac)
		}
		if w.outcome("10.1.0.2") == "lan ?" { // each packet requests it; Linux gives up after 150 ms
			w.m.Resolve(w.adjacencyOf("10.1.0.2"))
		}
		w.m.settle()
	}
}

// A neighbor that was resolved and is lost can be requested again within the same window.
func TestLostNeighborsAreRequestedAgain(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.peer.AddAddr("lan1", netip.MustParsePrefix("10.1.0.2/24")))
	opts := defaults
	opts.askEvery = time.Hour
	w.startWith(opts)
	mac, err := w.peer.MAC("lan1")
	require.NoError(t, err)
	for range 3 {
		w.m.Resolve(w.adjacencyOf("10.1.0.2"))
		w.wantSoon("10.1.0.2", "lan "+mac.String())
		w.ip("neigh flush dev lan")
		w.want("10.1.0.2", "lan ?")
	}
}
