package mirror

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
)

// exitsTo returns the exits of the next hop of an IPv4 address.
func (s *state) exitsTo(addr string) int {
	s.writeChanges()
	a := netip.MustParseAddr(addr).As4()
	return s.fib.NextHop(s.fib.IPv4.Lookup(uint32(a[0])<<24 | uint32(a[1])<<16 | uint32(a[2])<<8 | uint32(a[3]))).Exits()
}

func (s *state) forwardOn(index int, family uint8, on bool) {
	s.setForwarding(&rtnl.Netconf{Family: family, Index: index, Forwarding: on, HasForwarding: true})
}

// A route exits by Linux if Linux forwards on all its interfaces that are up, in each family; never by an
// interface of the router itself, loopback, or with encapsulation.
func TestExitsOfRoutes(t *testing.T) {
	s := newState(t)
	s.hooks.Exits, s.hooks.ExitInterface, s.hooks.Own = true, "warproute0", "ipsec0"
	link := func(index int, name string, flags uint32) {
		s.setLink(&rtnl.Link{Index: index, Name: name, MTU: 1500, Flags: flags})
	}
	const up = unix.IFF_UP | unix.IFF_LOWER_UP
	link(4, "wg0", up)
	link(5, "warproute0", up)
	link(6, "ipsec0", up)
	link(7, "lo", up|unix.IFF_LOOPBACK)
	for i := 3; i <= 7; i++ {
		s.forwardOn(i, unix.AF_INET, true)
	}
	for dst, links := range map[string][]int{
		"20.0.0.0/16": {3}, "20.1.0.0/16": {3, 4}, "20.2.0.0/16": {5}, "20.3.0.0/16": {6}, "20.4.0.0/16": {7}, "20.5.0.0/16": {3, 5}, "20.6.0.0/16": {3, 6},
		"20.7.0.0/16": {3, 1}, "20.8.0.0/16": {99},
	} {
		s.routeOver(dst, 0, links...)
	}
	encap := rtnl.Route{Family: unix.AF_INET, Type: unix.RTN_UNICAST, Table: unix.RT_TABLE_MAIN, Dst: netip.MustParsePrefix("20.9.0.0/16"),
		Paths: []rtnl.Path{{Index: 4, Weight: 1, Encap: true}}}
	s.addRoute(&encap, unix.NLM_F_CREATE)
	check := func(when string, want map[string]int) {
		t.Helper()
		for addr, exits := range want {
			if got := s.exitsTo(addr); got != exits {
				t.Errorf("%s, %s: exits %d, want %d", when, addr, got, exits)
			}
		}
		checkState(t, s)
	}
	check("IPv4 is forwarded", map[string]int{
		"20.0.0.1": fib.ExitIPv4, "20.1.0.1": fib.ExitIPv4, "20.2.0.1": 0, "20.3.0.1": fib.ExitTunnel, "20.4.0.1": 0, "20.5.0.1": 0, "20.6.0.1": 0,
		"20.7.0.1": 0, "20.8.0.1": 0, "20.9.0.1": 0,
	})
	s.forwardOn(rtnl.NetconfAll, unix.AF_INET6, true)
	check("both are forwarded", map[string]int{"20.0.0.1": fib.ExitIPv4 | fib.ExitIPv6, "20.1.0.1": fib.ExitIPv4 | fib.ExitIPv6, "20.3.0.1": fib.ExitTunnel})
	s.forwardOn(4, unix.AF_INET, false)
	s.setForwarding(&rtnl.Netconf{Family: unix.AF_INET, Index: 3}) // about another setting
	check("not on one interface", map[string]int{"20.0.0.1": fib.ExitIPv4 | fib.ExitIPv6, "20.1.0.1": fib.ExitIPv6})
	link(4, "wg0", 0)
	check("that interface is down", map[string]int{"20.0.0.1": fib.ExitIPv4 | fib.ExitIPv6, "20.1.0.1": fib.ExitIPv4 | fib.ExitIPv6})
	s.setTestLink(1, false)
	check("a port is down", map[string]int{"20.7.0.1": fib.ExitIPv4 | fib.ExitIPv6})
	s.setTestLink(1, true)
	check("a port is up", map[string]int{"20.7.0.1": 0})
	s.deleteLink(3)
	check("an interface was deleted", map[string]int{"20.0.0.1": 0})
	s.setTestLink(3, true)
	check("an interface is back, without forwarding", map[string]int{"20.0.0.1": fib.ExitIPv6})
}
