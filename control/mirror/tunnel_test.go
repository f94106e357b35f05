package mirror

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
)

// newTunnels returns a state of two ports that reports its tunnels to the returned slice.
func newTunnels(t *testing.T) (*state, *[]Tunnel) {
	s, reported := newState(t), new([]Tunnel)
	s.hooks.Tunnels = func(all []Tunnel) { *reported = all }
	return s, reported
}

// xfrm sets an XFRM interface with an if_id of its index.
func (s *state) xfrm(index int, up bool, alter ...func(*rtnl.Link)) {
	l := rtnl.Link{Index: index, Name: fmt.Sprint("ipsec", index), MTU: 1400, Kind: "xfrm", IfID: uint32(index), Flags: unix.IFF_NOARP}
	if up {
		l.Flags |= unix.IFF_UP | unix.IFF_LOWER_UP
	}
	for _, a := range alter {
		a(&l)
	}
	s.setLink(&l)
}

func (s *state) routeOver(dst string, mtu uint32, links ...int) {
	r := rtnl.Route{Family: unix.AF_INET, Type: unix.RTN_UNICAST, Table: unix.RT_TABLE_MAIN, Dst: netip.MustParsePrefix(dst), MTU: mtu, Multipath: len(links) > 1}
	for _, l := range links {
		r.Paths = append(r.Paths, rtnl.Path{Index: l, Weight: 1})
	}
	s.addRoute(&r, unix.NLM_F_CREATE|unix.NLM_F_REPLACE)
}

// over returns the decision for an address as text.
func (s *state) over(addr string) string {
	_, d := s.decide(s.main, netip.MustParseAddr(addr), map[fib.NextHopID]decision{})
	return d.String()
}

// Routes over XFRM interfaces that are up lead to their tunnels. A multipath route with ports, too, leads to the tunnels
// alone: no share of its flows leaves in cleartext.
func TestRoutesOverXFRMInterfaces(t *testing.T) {
	s, reported := newTunnels(t)
	s.xfrm(11, true)
	s.xfrm(12, true, func(l *rtnl.Link) { l.MTU = 1300 })
	s.xfrm(13, false)
	s.xfrm(14, true, func(l *rtnl.Link) { l.IfID = 0 }) // external
	s.xfrm(15, true, func(l *rtnl.Link) { l.Foreign = true })
	s.xfrm(16, true, func(l *rtnl.Link) { l.Master, l.SlaveOf = 99, "vrf" })
	for i, links := range [][]int{{11}, {11, 12}, {11, 1}, {13}, {11, 13}, {14}, {15}, {16}, {13, 1}} {
		s.routeOver(fmt.Sprintf("20.%d.0.0/16", i), 0, links...)
	}
	s.routeOver("20.20.0.0/16", 1350, 11)
	s.routeOver("20.21.0.0/16", 1450, 11)
	s.writeChanges()
	want := map[string]string{
		"20.0.0.1": "no port over if_id 11, mtu 1400", "20.1.0.1": "no port over if_id 11, 50.0 %; over if_id 12, 50.0 %, mtu 1300",
		"20.2.0.1": "no port over if_id 11, mtu 1400", "20.3.0.1": "no port", "20.4.0.1": "no port over if_id 11, mtu 1400",
		"20.5.0.1": "no port", "20.6.0.1": "no port", "20.7.0.1": "no port", "20.8.0.1": "forward by lan, to be resolved",
		"20.20.0.1": "no port over if_id 11, mtu 1350", "20.21.0.1": "no port over if_id 11, mtu 1400",
	}
	check := func(when string) {
		t.Helper()
		s.writeChanges()
		for _, addr := range slices.Sorted(maps.Keys(want)) {
			if got := s.over(addr); got != want[addr] {
				t.Errorf("%s, packets to %s: %q, want %q", when, addr, got, want[addr])
			}
		}
		checkState(t, s)
	}
	check("at first")
	if got := fmt.Sprint(*reported); got != "[{ipsec11 11 11 1400 true} {ipsec12 12 12 1300 true} {ipsec13 13 13 1400 false}]" {
		t.Errorf("reported: %v", got)
	}
	s.xfrm(11, true, func(l *rtnl.Link) { l.MTU, l.IfID = 1320, 77 })
	for addr, text := range map[string]string{
		"20.0.0.1": "no port over if_id 77, mtu 1320", "20.1.0.1": "no port over if_id 12, 50.0 %; over if_id 77, 50.0 %, mtu 1300",
		"20.2.0.1": "no port over if_id 77, mtu 1320", "20.4.0.1": "no port over if_id 77, mtu 1320", "20.20.0.1": "no port over if_id 77, mtu 1320",
		"20.21.0.1": "no port over if_id 77, mtu 1320",
	} {
		want[addr] = text
	}
	check("with another if_id and MTU")
	s.deleteLink(12)
	want["20.1.0.1"] = "no port over if_id 77, mtu 1320"
	check("after the deletion of one")
	if len(*reported) != 2 {
		t.Errorf("reported: %v", *reported)
	}
	checkNothingLeft(t, s)
}

// Without a gateway, routes over XFRM interfaces are as over any interface that is not a port.
func TestXFRMInterfacesWithoutGateway(t *testing.T) {
	s := newState(t)
	s.xfrm(11, true)
	s.routeOver("20.0.0.0/16", 0, 11)
	s.writeChanges()
	if got := s.over("20.0.0.1"); got != "no port" {
		t.Error(got)
	}
	if _, info := s.unsupported(&path{link: 11}), s.fib.NextHop(s.fib.IPv4.Lookup(0x14000001)); info.OverXFRM() {
		t.Errorf("%#x", info)
	}
}

// After random changes of interfaces and routes, each route leads where it would if it were added last.
func TestRandomChangesOfXFRMInterfaces(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	s, reported := newTunnels(t)
	links, routes := map[int]rtnl.Link{}, map[string][]int{}
	change := func() {
		index := 11 + rnd.IntN(4)
		switch rnd.IntN(6) {
		case 0:
			s.deleteLink(index)
			delete(links, index)
		case 1, 2:
			alter := func(l *rtnl.Link) {
				l.MTU = uint32(1300 + rnd.IntN(3))
				if rnd.IntN(5) == 0 {
					l.IfID += 10
				}
				links[index] = *l
			}
			s.xfrm(index, rnd.IntN(3) > 0, alter)
		default:
			var over []int
			for range 1 + rnd.IntN(3) {
				if l := []int{1, 11, 12, 13, 14}[rnd.IntN(5)]; !slices.Contains(over, l) {
					over = append(over, l)
				}
			}
			dst := fmt.Sprintf("20.%d.0.0/16", rnd.IntN(6))
			s.routeOver(dst, 0, over...)
			routes[dst] = over
		}
	}
	for round := range 400 {
		for range 1 + rnd.IntN(4) {
			change()
		}
		s.writeChanges()
		fresh, _ := newTunnels(t)
		up := 0
		for index, l := range links {
			fresh.setLink(&l)
			if l.Flags&unix.IFF_UP != 0 {
				up++
			}
			_ = index
		}
		for _, dst := range slices.Sorted(maps.Keys(routes)) {
			if _, there := s.main.routes.Get(netip.MustParsePrefix(dst)); !there {
				delete(routes, dst) // deleted with its link
				continue
			}
			fresh.routeOver(dst, 0, routes[dst]...)
		}
		fresh.writeChanges()
		for dst := range routes {
			addr := netip.MustParsePrefix(dst).Addr().Next().String()
			if got, want := s.over(addr), fresh.over(addr); got != want {
				t.Fatalf("round %d, %s over %v: %q, want %q", round, dst, routes[dst], got, want)
			}
		}
		reportedUp := 0
		for _, x := range *reported {
			if x.Up {
				reportedUp++
			}
		}
		if len(*reported) != len(links) || reportedUp != up {
			t.Fatalf("round %d: reported %v, there are %v", round, *reported, links)
		}
		checkState(t, s)
	}
	checkNothingLeft(t, s)
}
