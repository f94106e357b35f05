package mirror

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// linux is Linux's view of routes, links and neighbors, read by another netlink library than the
// mirror's.
type linux struct {
	ns        *lab.Namespace
	ports     map[int]string                  // names by index
	up        map[int]bool                    // all links
	neighbors map[neighborID]net.HardwareAddr // resolved
}

func askLinux(t testing.TB, ns *lab.Namespace) *linux {
	t.Helper()
	l := &linux{ns: ns, ports: map[int]string{}, up: map[int]bool{}, neighbors: map[neighborID]net.HardwareAddr{}}
	links, err := ns.Netlink().LinkList()
	require.NoError(t, err)
	for _, link := range links {
		a := link.Attrs()
		l.up[a.Index] = a.RawFlags&unix.IFF_UP != 0 && a.RawFlags&unix.IFF_LOWER_UP != 0
		if slices.Contains(portNames, a.Name) {
			l.ports[a.Index] = a.Name
		}
	}
	neighbors, err := ns.Netlink().NeighList(0, 0)
	require.NoError(t, err)
	for _, n := range neighbors {
		if ip, ok := netip.AddrFromSlice(n.IP); ok && n.State&(netlink.NUD_FAILED|netlink.NUD_INCOMPLETE) == 0 {
			l.neighbors[neighborID{n.LinkIndex, ip.Unmap()}] = n.HardwareAddr
		}
	}
	return l
}

// outcome returns what Linux does with packets to an address, in the format of world.outcome
// without shares.
func (l *linux) outcome(t testing.TB, ip netip.Addr) string {
	t.Helper()
	routes, err := l.ns.Netlink().RouteGetWithOptions(ip.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
	switch {
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EAGAIN):
		return "none"
	case errors.Is(err, unix.EHOSTUNREACH):
		return "unreachable"
	case errors.Is(err, unix.EACCES):
		return "prohibit"
	case errors.Is(err, unix.EINVAL):
		return "blackhole"
	case err != nil || len(routes) != 1:
		t.Fatalf("ip route get fibmatch %v: %d routes, %v", ip, len(routes), err)
	}
	r := routes[0]
	switch r.Type {
	case unix.RTN_UNICAST:
	case unix.RTN_MULTICAST: // as e2e.TestMulticastRoutesAreReported shows
		if ip.Is4() {
			return "blackhole"
		}
	case unix.RTN_LOCAL, unix.RTN_BROADCAST, unix.RTN_ANYCAST:
		return "local"
	default:
		t.Fatalf("ip route get fibmatch %v: type %d", ip, r.Type)
	}
	hops := r.MultiPath
	if len(hops) == 0 {
		hops = []*netlink.NexthopInfo{{LinkIndex: r.LinkIndex, Gw: r.Gw, Via: r.Via}}
	}
	var ways []string
	for _, h := range hops {
		if name := l.ports[h.LinkIndex]; name != "" && l.up[h.LinkIndex] && h.Flags&unix.RTNH_F_DEAD == 0 {
			ways = append(ways, name+" "+l.to(h, ip))
		}
	}
	if len(ways) == 0 {
		return "no port"
	}
	slices.Sort(ways)
	outcome := strings.Join(slices.Compact(ways), " ")
	if r.MTU != 0 {
		outcome += fmt.Sprintf(" mtu %d", r.MTU)
	}
	return outcome
}

func (l *linux) to(h *netlink.NexthopInfo, dst netip.Addr) string {
	next := dst
	if gw, ok := netip.AddrFromSlice(h.Gw); ok {
		next = gw.Unmap()
	} else if via, ok := h.Via.(*netlink.Via); ok {
		next, _ = netip.AddrFromSlice(via.Addr)
	}
	if mac := l.neighbors[neighborID{h.LinkIndex, next}]; mac != nil {
		return mac.String()
	}
	return "?"
}

// sameAsLinux compares the FIB with Linux at the edges of all prefixes and at random addresses.
func (w *world) sameAsLinux(random *rand.Rand) {
	w.t.Helper()
	w.same(func() (differences []string) {
		ips := edges(w.m.Routes(), w.m.Neighbors())
		for range 100 {
			a, b := byte(random.Uint32()), byte(random.Uint32())
			ips = append(ips, netip.AddrFrom4([4]byte{20, a & 7, b, a}), netip.AddrFrom16([16]byte{0xfd, 0x20, 2: a & 7, 15: b}))
		}
		l := askLinux(w.t, w.router)
		for _, ip := range slices.DeleteFunc(ips, special) {
			got := strings.Fields(outcome(w.fib, ip))
			for i, field := range got {
				got[i], _, _ = strings.Cut(field, "*")
			}
			if got, want := strings.Join(got, " "), l.outcome(w.t, ip); got != want {
				differences = append(differences, fmt.Sprintf("packets to %v: %q, Linux says %q", ip, got, want))
			}
		}
		return differences
	})
}

// special reports whether Linux decides on an address without a route.
func special(ip netip.Addr) bool {
	b := ip.As16()
	return ip.IsMulticast() || ip.IsUnspecified() || ip.IsLoopback() ||
		ip.Is4() && (b[12] == 127 || b[12] == 0 || b[12] >= 224) || ip.Is6() && b[0] == 0xfe
}
