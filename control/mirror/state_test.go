package mirror

import (
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/race"
	"github.com/warproute/warproute/internal/require"
)

// newState is a state of two ports without Linux.
func newState(t testing.TB) *state {
	s := new(state)
	require.NoError(t, s.init(fib.New(1), []Port{{"lan", 1}, {"wan", 2}}, Hooks{}, slog.New(slog.DiscardHandler)))
	for i := range 3 {
		s.setTestLink(i+1, true)
	}
	return s
}

func (s *state) setTestLink(index int, up bool) {
	l := rtnl.Link{Index: index, Name: []string{"lan", "wan", "oob"}[index-1], MTU: 1500, Address: [6]byte{2, 5: byte(index)}}
	if up {
		l.Flags = unix.IFF_UP | unix.IFF_LOWER_UP
	}
	s.setLink(&l)
}

// checkState checks what must hold after every flush.
func checkState(t *testing.T, s *state) {
	t.Helper()
	hops, adjacencies := map[*hop]int{s.noRoom: 1}, map[*adjacency]int{}
	lens := [2]int{}
	for p, r := range s.routes.All() {
		lens[familyOf(p.Addr())]++
		for ; r != nil; r = r.next {
			hops[r.hop]++
			if r.next != nil && r.next.class < r.class {
				t.Errorf("%v: routes are not sorted", p)
			}
		}
	}
	for ip, h := range s.hosts {
		hops[h]++
		if _, routed := s.routes.Get(netip.PrefixFrom(ip, ip.BitLen())); !routed {
			lens[familyOf(ip)]++
		}
		if id, mtu, ok := s.hostNeighbor(ip); !ok || h.paths[0].link != id.link || h.mtu != mtu {
			t.Errorf("host route of %v, whose prefix is elsewhere", ip)
		}
	}
	for host := range s.resolved.All() {
		if _, _, ok := s.hostNeighbor(host.Addr()); ok && s.hosts[host.Addr()] == nil {
			t.Errorf("no host route of %v", host)
		}
	}
	for p, r := range s.routes.All() {
		want := r.hop.id
		if h := s.hosts[p.Addr()]; h != nil && p.IsSingleIP() {
			want = h.id
		}
		lookup := s.fib.IPv4.LookupPrefix
		if p.Addr().Is6() {
			lookup = s.fib.IPv6.LookupPrefix
		}
		if got, id, _ := lookup(p.Addr()); got == p && id != want { // got may be longer
			t.Errorf("%v: next hop %d in the base, want %d", p, id, want)
		}
	}
	if got := [2]int{s.fib.IPv4.Len(), s.fib.IPv6.Len()}; got != lens {
		t.Errorf("base has %v routes, want %v", got, lens)
	}
	byObject := 0
	for h, n := range hops {
		if w := s.fib.NextHop(h.id); w.MTU() != h.mtu {
			t.Errorf("hop %d: an MTU of %d in the base, want %d", h.id, w.MTU(), h.mtu)
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
		if a.refs != n || s.adjacencies[a.to] != a || s.numbered[a.id] != a || s.fib.Adjacency(a.id).MAC() != mac {
			t.Errorf("adjacency %d to %v: %d references of %d, %v in the base, want %v", a.id, a.to, n, a.refs, s.fib.Adjacency(a.id).MAC(), mac)
		}
	}
	if len(adjacencies) != len(s.adjacencies) || len(adjacencies) != len(s.numbered) {
		t.Errorf("%d adjacencies are kept, %d are used", len(s.adjacencies), len(adjacencies))
	}
}

// checkNothingLeft takes all away and checks that nothing of it stays.
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
	if len(s.hops) != 1 || len(s.adjacencies) != 0 || len(s.hosts) != 0 || len(s.sources) != 0 || len(s.ofObject) != 0 || len(s.locals) != 0 || s.resolved.Size() != 0 {
		t.Errorf("left: %d hops, %d adjacencies, %d hosts, %d sources, %d locals", len(s.hops), len(s.adjacencies), len(s.hosts), len(s.sources), len(s.locals))
	}
	if n := s.fib.IPv4.Len() + s.fib.IPv6.Len(); n != 0 {
		t.Errorf("left: %d routes in the base", n)
	}
}

// An object that returns right after its link lost the carrier is another one:
// neither groups nor routes have it.
func TestNexthopObjectsAreDeletedWithTheirLink(t *testing.T) {
	s := newState(t)
	object := func(id uint32, link int) *rtnl.Nexthop {
		return &rtnl.Nexthop{ID: id, Hop: rtnl.Hop{Index: link, Gateway: netip.MustParseAddr("10.0.0.1"), Weight: 1}}
	}
	s.setObject(object(1, 1))
	s.setObject(object(2, 2))
	s.setObject(&rtnl.Nexthop{ID: 10, Group: []rtnl.Member{{ID: 1, Weight: 1}, {ID: 2, Weight: 1}}})
	s.setObject(&rtnl.Nexthop{ID: 11, Group: []rtnl.Member{{ID: 1, Weight: 1}}})
	for id, dst := range map[uint32]string{1: "20.0.0.0/8", 10: "21.0.0.0/8", 11: "22.0.0.0/8"} {
		s.addRoute(&rtnl.Route{Family: unix.AF_INET, Type: unix.RTN_UNICAST, Table: unix.RT_TABLE_MAIN, NexthopID: id, Dst: netip.MustParsePrefix(dst)}, unix.NLM_F_CREATE)
	}
	s.writeChanges()
	s.setLink(&rtnl.Link{Index: 1, Name: "lan", MTU: 1500, Flags: unix.IFF_UP}) // no carrier
	s.setObject(object(1, 2))
	s.writeChanges()
	for addr, want := range map[string]string{"20.0.0.1": "none", "21.0.0.1": "wan ?", "22.0.0.1": "none"} {
		if got := fate(s.fib, netip.MustParseAddr(addr)); got != want {
			t.Errorf("packets to %s: %q, want %q", addr, got, want)
		}
	}
	checkState(t, s)
}

// TestRandomMessages gives the state messages that Linux would not send in this
// order, and checks that the books balance.
func TestRandomMessages(t *testing.T) {
	s, r := newState(t), randomMessages{rand.New(rand.NewPCG(1, 2))}
	for n := range race.Fewer(30000) {
		r.apply(s)
		if n%50 == 49 {
			s.writeChanges()
			if n%500 == 499 {
				checkState(t, s)
			}
		}
		if t.Failed() {
			t.Fatalf("after %d messages", n)
		}
	}
	checkNothingLeft(t, s)
}

type randomMessages struct{ *rand.Rand }

func (r randomMessages) addr(v6 bool) netip.Addr {
	if v6 {
		return netip.AddrFrom16([16]byte{0xfd, 1: byte(r.IntN(2)), 15: byte(r.IntN(8))})
	}
	return netip.AddrFrom4([4]byte{20, byte(r.IntN(2)), 0, byte(r.IntN(8))})
}

func (r randomMessages) hop(v6 bool) rtnl.Hop {
	h := rtnl.Hop{Index: 1 + r.IntN(3), Weight: uint16(1 + r.IntN(3))}
	if r.IntN(2) == 0 {
		h.Gateway = r.addr(v6)
	}
	return h
}

func (r randomMessages) route() *rtnl.Route {
	v6 := r.IntN(2) == 0
	m := &rtnl.Route{Family: unix.AF_INET, Table: unix.RT_TABLE_MAIN, Type: uint8(1 + r.IntN(9)), Metric: uint32(r.IntN(3))}
	if v6 {
		m.Family = unix.AF_INET6
	}
	ip := r.addr(v6)
	m.Dst, _ = ip.Prefix([]int{0, 8, 15, 16, 29, 31, 32, 64, 127, 128}[r.IntN(10)] * ip.BitLen() / 128)
	if r.IntN(4) != 0 {
		m.Type = unix.RTN_UNICAST
	}
	if m.Type == unix.RTN_LOCAL {
		m.Table = unix.RT_TABLE_LOCAL
	}
	for range 1 + r.IntN(3)*r.IntN(2) {
		m.Hops = append(m.Hops, r.hop(v6))
	}
	m.Multipath = len(m.Hops) > 1
	if r.IntN(5) == 0 {
		m.NexthopID = uint32(1 + r.IntN(6))
	}
	if r.IntN(5) == 0 {
		m.PrefSrc = r.addr(v6)
	}
	if r.IntN(5) == 0 {
		m.MTU = uint32(1 + r.IntN(2)*1400)
	}
	return m
}

func (r randomMessages) apply(s *state) {
	switch n := r.IntN(100); {
	case n < 45:
		s.addRoute(r.route(), []uint16{unix.NLM_F_CREATE, unix.NLM_F_CREATE | unix.NLM_F_EXCL, unix.NLM_F_CREATE | unix.NLM_F_APPEND, unix.NLM_F_REPLACE, unix.NLM_F_MULTI}[r.IntN(5)])
	case n < 70:
		s.deleteRoute(r.route())
	case n < 85:
		ip := r.addr(r.IntN(2) == 0)
		m := &rtnl.Neighbor{Family: unix.AF_INET, Index: 1 + r.IntN(3), Addr: ip, State: 1 << r.IntN(8), Address: [6]byte{2, 5: byte(r.IntN(4))}}
		if ip.Is6() {
			m.Family = unix.AF_INET6
		}
		s.setNeighbor(m, r.IntN(4) == 0)
	case n < 94:
		m := &rtnl.Nexthop{ID: uint32(1 + r.IntN(6)), Hop: r.hop(r.IntN(2) == 0), Blackhole: r.IntN(6) == 0}
		if m.ID > 4 {
			m.Group = []rtnl.Member{{ID: uint32(1 + r.IntN(4)), Weight: 1}, {ID: uint32(1 + r.IntN(4)), Weight: 2}}
		}
		if r.IntN(3) == 0 {
			s.deleteObject(m.ID)
		} else {
			s.setObject(m)
		}
	case n < 98:
		s.setTestLink(1+r.IntN(3), r.IntN(3) != 0)
	case n < 99:
		s.deleteLink(1 + r.IntN(3))
	default:
		s.dirty[r.IntN(2)] = dirty{all: true} // as after very many changes
	}
}

// FuzzMessages gives the state any bytes as messages, in any order.
func FuzzMessages(f *testing.F) {
	f.Add([]byte{unix.RTM_NEWROUTE, 0, 0, 12, unix.AF_INET, 8, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0})
	f.Add([]byte{unix.RTM_NEWNEIGH, 0, 0, 20, unix.AF_INET, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 8, 0, 1, 0, 10, 0, 0, 9})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := newState(t)
		for n := 0; len(data) >= 4; n++ {
			msg := rtnl.Message{Type: uint16(data[0]), Flags: binary.LittleEndian.Uint16(data[1:])}
			size := min(int(data[3]), len(data)-4)
			msg.Data, data = data[4:4+size], data[4+size:]
			_ = s.handle(msg)
		}
		s.writeChanges()
		checkState(t, s)
		checkNothingLeft(t, s)
	})
}
