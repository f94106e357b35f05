package mirror

import (
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
)

// newState returns a state of two ports without Linux.
func newState(t testing.TB) *state {
	s := new(state)
	require.NoError(t, s.init(fib.New(1), []Port{{Name: "lan", Ifindex: 1}, {Name: "wan", Ifindex: 2}}, Hooks{}, slog.New(slog.DiscardHandler)))
	c := new(commits)
	allCommits.Store(s.fib, c)
	t.Cleanup(func() { allCommits.Delete(s.fib) })
	s.fib.Follow(c)
	for i := range 3 {
		s.setTestLink(i+1, true)
	}
	return s
}

// allCommits are the followers of FIBs of tests.
var allCommits sync.Map

// commits counts the stores since the last commit: devices receive them with it.
type commits struct{ stores int }

func (c *commits) Word(fib.Array, uint32, uint64) { c.stores++ }
func (c *commits) Reuse()                         {}
func (c *commits) Flush()                         { c.stores = 0 }

func (s *state) setTestLink(index int, up bool) {
	l := rtnl.Link{Index: index, Name: []string{"lan", "wan", "oob"}[index-1], MTU: 1500, Address: [6]byte{2, 5: byte(index)}}
	if up {
		l.Flags = unix.IFF_UP | unix.IFF_LOWER_UP
	}
	s.setLink(&l)
}

// checkState checks the invariants after writeChanges: references, indexes and the FIB.
func checkState(t *testing.T, s *state) {
	t.Helper()
	if c, ok := allCommits.Load(s.fib); ok && c.(*commits).stores > 0 {
		t.Errorf("%d stores to the FIB were not committed", c.(*commits).stores)
	}
	hops, adjacencies := map[*hop]int{s.fallbackHop: 1}, map[*adjacency]int{}
	for _, table := range s.allTables() {
		s.checkTable(t, table, hops)
	}
	byObject := 0
	for h, n := range hops {
		if w := s.fib.NextHop(h.id); w.MTU() != s.mtuOver(h) {
			t.Errorf("hop %d: an MTU of %d in the FIB, want %d", h.id, w.MTU(), s.mtuOver(h))
		}
		if h.object != 0 {
			if byObject++; !slices.Contains(s.ofObject[h.object], h) {
				t.Errorf("hop %d is not among those of object %d", h.id, h.object)
			}
		}
		if h.refs != n || s.hops[h.key] != h || h.gone {
			t.Errorf("hop %d: %d references of %d, gone %v", h.id, n, h.refs, h.gone)
		}
		for _, p := range h.paths {
			if p.adjacency != nil {
				adjacencies[p.adjacency]++
			}
		}
	}
	for _, listed := range s.ofObject {
		byObject -= len(listed)
	}
	if byObject != 0 {
		t.Errorf("%d more hops stand for objects than are listed", byObject)
	}
	if len(hops) != len(s.hops) {
		t.Errorf("%d hops are kept, %d are used", len(s.hops), len(hops))
	}
	for a, n := range adjacencies {
		var mac fib.MAC
		if neighbor := s.neighbors[a.to]; neighbor != nil && neighbor.usable() {
			mac = neighbor.mac
		}
		if a.refs != n || s.adjacencies[a.to] != a || s.adjacencyByID[a.id] != a || s.fib.Adjacency(a.id).MAC() != mac {
			t.Errorf("adjacency %d to %v: %d references of %d, %v in the FIB, want %v", a.id, a.to, n, a.refs, s.fib.Adjacency(a.id).MAC(), mac)
		}
	}
	if len(adjacencies) != len(s.adjacencies) || len(adjacencies) != len(s.adjacencyByID) {
		t.Errorf("%d adjacencies are kept, %d are used", len(s.adjacencies), len(adjacencies))
	}
}

// checkTable checks a table, and counts the references to hops.
func (s *state) checkTable(t *testing.T, table *table, hops map[*hop]int) {
	t.Helper()
	lens := [2]int{}
	for p, r := range table.routes.All() {
		lens[familyOf(p.Addr())]++
		for ; r != nil; r = r.next {
			hops[r.hop]++
			if r.next != nil && r.next.priority < r.priority {
				t.Errorf("%v: routes are not sorted", p)
			}
		}
	}
	for ip, h := range table.hosts {
		hops[h]++
		if _, routed := table.routes.Get(netip.PrefixFrom(ip, ip.BitLen())); !routed {
			lens[familyOf(ip)]++
		}
		if id, mtu, ok := s.hostNeighbor(table, ip); !ok || h.paths[0].link != id.link || h.mtu != mtu {
			t.Errorf("host route of %v, whose prefix is elsewhere", ip)
		}
	}
	for host := range s.resolved.All() {
		if _, _, ok := s.hostNeighbor(table, host.Addr()); ok && table.hosts[host.Addr()] == nil {
			t.Errorf("no host route of %v", host)
		}
	}
	for p, r := range table.routes.All() {
		want := r.hop.id
		if h := table.hosts[p.Addr()]; h != nil && p.IsSingleIP() {
			want = h.id
		}
		if got, id, _ := s.inTable(table, familyOf(p.Addr())).LookupPrefix(p.Addr()); got == p && id != want { // got may be longer
			t.Errorf("%v: next hop %d in the FIB, want %d", p, id, want)
		}
	}
	if got := [2]int{s.inTable(table, 0).Len(), s.inTable(table, 1).Len()}; got != lens {
		t.Errorf("table %d of the FIB has %v routes, want %v", table.id, got, lens)
	}
}

// checkNothingLeft deletes everything and checks that all entries are freed.
func checkNothingLeft(t *testing.T, s *state) {
	t.Helper()
	for id := range s.neighbors {
		s.forgetNeighbor(id)
	}
	for id := range s.objects {
		s.deleteObject(id)
	}
	s.sweepRoutes(func(netip.Prefix, *route) bool { return true })
	s.writeChanges()
	checkState(t, s)
	if len(s.hops) != 1 || len(s.adjacencies) != 0 || len(s.main.hosts) != 0 || len(s.vrfs) != 0 || len(s.sources) != 0 || len(s.ofObject) != 0 || len(s.locals) != 0 || s.resolved.Size() != 0 {
		t.Errorf("left: %d hops, %d adjacencies, %d hosts, %d sources, %d locals", len(s.hops), len(s.adjacencies), len(s.main.hosts), len(s.sources), len(s.locals))
	}
	if n := s.fib.IPv4.Len() + s.fib.IPv6.Len(); n != 0 {
		t.Errorf("left: %d routes in the FIB", n)
	}
}

// A next-hop object created after its link lost the carrier is a new one: former groups and routes
// do not refer to it.
func TestNexthopObjectsAreDeletedWithTheirLink(t *testing.T) {
	s := newState(t)
	object := func(id uint32, link int) *rtnl.NexthopObject {
		return &rtnl.NexthopObject{ID: id, Path: rtnl.Path{Index: link, Gateway: netip.MustParseAddr("10.0.0.1"), Weight: 1}}
	}
	s.setObject(object(1, 1))
	s.setObject(object(2, 2))
	s.setObject(&rtnl.NexthopObject{ID: 10, Group: []rtnl.Member{{ID: 1, Weight: 1}, {ID: 2, Weight: 1}}})
	s.setObject(&rtnl.NexthopObject{ID: 11, Group: []rtnl.Member{{ID: 1, Weight: 1}}})
	for id, dst := range map[uint32]string{1: "20.0.0.0/8", 10: "21.0.0.0/8", 11: "22.0.0.0/8"} {
		s.addRoute(&rtnl.Route{Family: unix.AF_INET, Type: unix.RTN_UNICAST, Table: unix.RT_TABLE_MAIN, NexthopID: id, Dst: netip.MustParsePrefix(dst)}, unix.NLM_F_CREATE)
	}
	s.writeChanges()
	s.setLink(&rtnl.Link{Index: 1, Name: "lan", MTU: 1500, Flags: unix.IFF_UP}) // no carrier
	s.setObject(object(1, 2))
	s.writeChanges()
	for addr, want := range map[string]string{"20.0.0.1": "none", "21.0.0.1": "wan ?", "22.0.0.1": "none"} {
		if got := outcome(s.fib, netip.MustParseAddr(addr)); got != want {
			t.Errorf("packets to %s: %q, want %q", addr, got, want)
		}
	}
	checkState(t, s)
}
