package mirror

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/hist"
)

// RouteInfo describes a route: an element of `show routes`.
type RouteInfo struct {
	Prefix      netip.Prefix `json:"prefix"`                // destination
	Type        string       `json:"type"`                  // named as by `ip route`: unicast, local, blackhole, ...
	Kind        string       `json:"kind"`                  // action of the router: forward, tunnel, local, no port, to linux, ...
	Table       string       `json:"table"`                 // local, main or default, or the number of a VRF's table
	VRF         string       `json:"vrf,omitempty"`         // name of the VRF
	Protocol    string       `json:"protocol"`              // origin of the route, named as by `ip route`: kernel, static, bgp, ...
	Metric      uint32       `json:"metric"`                // lowest preferred
	NexthopID   uint32       `json:"nexthop_id,omitempty"`  // Linux next-hop object
	MTU         uint16       `json:"mtu,omitempty"`         // of the route, bytes; 0: the MTU of the port applies
	Unsupported Unsupported  `json:"unsupported,omitempty"` // reason for not forwarding as Linux does
	Installed   bool         `json:"installed"`             // best route of its prefix
	Paths       []PathInfo   `json:"paths,omitempty"`       // shared with other routes: read only
}

// PathInfo describes a path of a route.
type PathInfo struct {
	Via         netip.Addr  `json:"via,omitzero"`          // gateway; none if destinations are on the link
	Dev         string      `json:"dev"`                   // interface
	Port        int         `json:"port"`                  // -1 if the link is not a port
	Weight      uint32      `json:"weight"`                // share of the flows, relative to the other paths
	MAC         string      `json:"mac,omitempty"`         // of the neighbor, if resolved
	Unsupported Unsupported `json:"unsupported,omitempty"` // reason for not using the path
	Dead        bool        `json:"dead"`                  // the link is down, or Linux does not use the path
}

// NeighborInfo describes a neighbor: an element of `show neighbors`.
type NeighborInfo struct {
	Address netip.Addr `json:"address"`       // IP address
	MAC     string     `json:"mac,omitempty"` // MAC address, if known
	Dev     string     `json:"dev"`           // interface
	Port    int        `json:"port"`          // index of the port
	State   string     `json:"state"`         // named as by `ip neigh`
	Used    bool       `json:"used"`          // resolved and used by a route
}

// Status holds the counters of the mirror.
type Status struct {
	RoutesIPv4  int           `json:"routes_ipv4"` // in the forwarding table, including host routes of neighbors
	RoutesIPv6  int           `json:"routes_ipv6"`
	VRFs        []VRFInfo     `json:"vrfs,omitempty"`
	Neighbors   int           `json:"neighbors"`
	NextHops    int           `json:"next_hops"`
	Adjacencies int           `json:"adjacencies"`
	Events      uint64        `json:"events"`         // netlink messages
	Malformed   uint64        `json:"malformed"`      // netlink messages that could not be parsed
	Resyncs     uint64        `json:"resyncs"`        // full comparisons with Linux after lost or missing events
	Audits      uint64        `json:"audits"`         // comparisons of the routes over single links
	LastUpdate  time.Duration `json:"last_update_ns"` // time from reading the last batch of events to its end
	Warnings    []string      `json:"warnings,omitempty"`
}

// Status returns the mirror's status, the zero value once it is closed.
func (m *Mirror) Status() (st Status) {
	m.do(func() {
		st = Status{
			RoutesIPv4: m.fib.IPv4.Len(), RoutesIPv6: m.fib.IPv6.Len(),
			Neighbors: len(m.neighbors), NextHops: len(m.hops), Adjacencies: len(m.adjacencies),
			Events: m.loop.Stats().Events, Malformed: m.loop.Stats().Malformed,
			Resyncs: m.loop.Stats().Resyncs, Audits: m.audits,
			LastUpdate: m.lastUpdate, VRFs: m.vrfInfos(),
			Warnings: slices.Clone(m.warnings),
		}
	})
	return st
}

// Updates adds the times from reading a batch of events to the updated FIB, in
// nanoseconds, to a snapshot.
func (m *Mirror) Updates(to *hist.Snapshot) { m.updates.AddTo(to) }

// settle waits until all changes made in Linux so far are in the FIB, or the
// mirror is closed.
func (m *Mirror) settle() {
	settled := make(chan struct{})
	var wait func()
	wait = func() {
		asked := time.Now()
		m.afterPendingEvents(func() {
			if m.suspects.any() || m.catchUp {
				m.audit() // without delay
				wait()
				return
			}
			m.finishBatch(asked) // events in the same batch
			close(settled)
		})
	}
	if m.do(wait) {
		select {
		case <-settled:
		case <-m.loop.Done:
		}
	}
}

// Routes returns all routes that the router uses, sorted by prefix.
func (m *Mirror) Routes() (all []RouteInfo) {
	m.do(func() {
		all = make([]RouteInfo, 0, m.main.routes.Size())
		paths := map[*hop][]PathInfo{}
		for _, t := range m.allTables() {
			for p, head := range t.routes.All() {
				best := head.best()
				for r := head; r != nil; r = r.next {
					if _, done := paths[r.hop]; !done {
						paths[r.hop] = m.pathInfos(r.hop, netip.Addr{})
					}
					all = append(all, m.routeInfo(t, p, r, paths[r.hop], r == best))
				}
			}
		}
	})
	slices.SortStableFunc(all, func(a, b RouteInfo) int {
		return cmp.Or(cmp.Compare(a.VRF, b.VRF), a.Prefix.Compare(b.Prefix))
	})
	return all
}

// Lookup returns the route to an address in table main. It is not ok without a route.
func (m *Mirror) Lookup(ip netip.Addr) (info RouteInfo, ok bool) {
	m.do(func() { info, ok = m.lookupIn(m.main, ip) })
	return info, ok
}

// LookupInVRF returns the route to an address in the table of a VRF, and the VRF's number in the FIB. The error says that the router has no such VRF.
func (m *Mirror) LookupInVRF(vrf string, ip netip.Addr) (info RouteInfo, number uint16, ok bool, err error) {
	m.do(func() {
		if t := m.tableNamed(vrf); t != nil {
			number = t.vrf
			info, ok = m.lookupIn(t, ip)
			return
		}
		err = fmt.Errorf("VRF %q: the router has %s", vrf, m.listVRFs())
	})
	return info, number, ok, err
}

// LookupFrom returns the route to the destination of a packet that a port receives. It is not ok without a route.
func (m *Mirror) LookupFrom(port int, ip netip.Addr) (info RouteInfo, ok bool) {
	m.do(func() {
		t := m.tableOfPort(port)
		if c := m.combinedOf(port); c != nil && ip.IsValid() {
			t = c.tableFor(&m.state, ip.WithZone(""))
		}
		if t != nil {
			info, ok = m.lookupIn(t, ip)
		}
	})
	return info, ok
}

func (s *state) lookupIn(t *table, ip netip.Addr) (info RouteInfo, ok bool) {
	ip = ip.WithZone("") // Linux routes IPv4-mapped addresses by IPv6, too
	if !ip.IsValid() {
		return info, false
	}
	p, r, ok := t.routes.LookupPrefixLPM(netip.PrefixFrom(ip, ip.BitLen()))
	if ok {
		r = r.best()
		info = s.routeInfo(t, p, r, s.pathInfos(r.hop, ip), true)
	}
	return info, ok
}

// PortName returns the current name of a physical port's link, which may have been renamed; "" while
// it does not exist.
func (m *Mirror) PortName(port int) (name string) {
	m.do(func() { name = m.linkName(m.ports[port].ifindex) })
	return name
}

// Neighbors returns the neighbors on the ports, sorted by port and address.
func (m *Mirror) Neighbors() (all []NeighborInfo) {
	m.do(func() {
		for id, n := range m.neighbors {
			info := NeighborInfo{
				Address: id.addr, Dev: m.devName(id.link), Port: m.portNumber(id.link),
				State: stateName(n.state), Used: m.adjacencies[id] != nil && n.usable(),
			}
			if n.mac != 0 {
				info.MAC = n.mac.String()
			}
			all = append(all, info)
		}
	})
	slices.SortFunc(all, func(a, b NeighborInfo) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), a.Address.Compare(b.Address))
	})
	return all
}

func (s *state) routeInfo(t *table, p netip.Prefix, r *route, paths []PathInfo, installed bool) RouteInfo {
	return RouteInfo{
		Prefix: p, Type: nameOf(typeNames, r.kind), Kind: r.hop.action(t, p.Addr().Is4()),
		Table: nameOfTable(t, r), VRF: strings.Join(s.vrfNames(t), ","), Protocol: nameOf(protocolNames, r.protocol),
		Metric: r.metric(), NexthopID: r.hop.object, MTU: r.hop.mtu, Installed: installed, Paths: paths,
		Unsupported: unsupportedRoute(t, p, r, paths),
	}
}

// ToLinux is the kind of a route whose packets Linux forwards.
const ToLinux = "to linux"

// action returns what the router does with packets of a family in a table.
func (h *hop) action(t *table, ipv4 bool) string {
	switch {
	case h.tunnel:
		return "tunnel"
	case t.vrf == 0 && h.exitsByLinux(ipv4):
		return ToLinux
	}
	return h.kind.String()
}

// unsupportedRoute returns the reason for not forwarding as Linux does, "" for none.
func unsupportedRoute(t *table, p netip.Prefix, r *route, paths []PathInfo) Unsupported {
	switch {
	case t.vrf == 0 && r.hop.exitsByLinux(p.Addr().Is4()):
		return ""
	case r.kind == unix.RTN_MULTICAST && r.hop.kind == fib.KindBlackhole:
		return MulticastType
	case r.hop.kind == fib.KindNoPort && !r.hop.tunnel:
		for _, p := range paths {
			if p.Unsupported == Encap {
				return Encap
			}
		}
		return NoPort
	}
	return ""
}

// unsupportedPath is unsupported for hops that forward.
func (s *state) unsupportedPath(h *hop, p *path) Unsupported {
	if h.kind != fib.KindForward && h.kind != fib.KindNoPort {
		return ""
	}
	return s.unsupported(p)
}

// pathInfos describes the paths of a hop, for packets to dst if valid.
func (s *state) pathInfos(h *hop, dst netip.Addr) []PathInfo {
	var infos []PathInfo
	for _, p := range h.paths {
		info := PathInfo{
			Via: p.gateway, Dev: s.devName(p.link), Port: s.portNumber(p.link),
			Unsupported: s.unsupportedPath(h, &p), Weight: p.weight, Dead: p.dead || !s.isUp(p.link),
		}
		to := neighborID{p.link, p.gateway}
		if p.onLink() {
			to.addr = dst
		}
		if n := s.neighbors[to]; n != nil && n.usable() {
			info.MAC = n.mac.String()
		}
		infos = append(infos, info)
	}
	return infos
}

// String returns the route as `ip route` prints it, on one line.
func (r RouteInfo) String() string {
	var b strings.Builder
	if r.Type != "unicast" {
		b.WriteString(r.Type + " ")
	}
	b.WriteString(r.Prefix.String())
	if r.NexthopID != 0 {
		fmt.Fprintf(&b, " nhid %d", r.NexthopID)
	}
	if len(r.Paths) == 1 {
		b.WriteString(r.Paths[0].String())
	}
	if r.Table != "main" {
		b.WriteString(" table " + r.Table)
	}
	b.WriteString(" proto " + r.Protocol)
	if r.Metric != 0 {
		fmt.Fprintf(&b, " metric %d", r.Metric)
	}
	if r.MTU != 0 {
		fmt.Fprintf(&b, " mtu %d", r.MTU)
	}
	if len(r.Paths) > 1 {
		for _, p := range r.Paths {
			fmt.Fprintf(&b, " nexthop%v weight %d", p, p.Weight)
		}
	}
	return b.String()
}

// String returns the path as `ip route` prints it, with a leading space.
func (p PathInfo) String() string {
	var b strings.Builder
	if p.Via.IsValid() {
		b.WriteString(" via " + p.Via.String())
	}
	b.WriteString(" dev " + p.Dev)
	if p.Dead {
		b.WriteString(" dead")
	}
	return b.String()
}

var (
	typeNames = map[uint8]string{
		unix.RTN_UNICAST: "unicast", unix.RTN_LOCAL: "local", unix.RTN_BROADCAST: "broadcast",
		unix.RTN_ANYCAST: "anycast", unix.RTN_BLACKHOLE: "blackhole", unix.RTN_UNREACHABLE: "unreachable",
		unix.RTN_PROHIBIT: "prohibit", unix.RTN_THROW: "throw",
		unix.RTN_MULTICAST: "multicast",
	}
	tableNames = map[uint8]string{
		unix.RT_TABLE_LOCAL: "local", unix.RT_TABLE_MAIN: "main", unix.RT_TABLE_DEFAULT: "default",
	}
	// Names of iproute2.
	protocolNames = map[uint8]string{
		unix.RTPROT_UNSPEC: "unspec", unix.RTPROT_REDIRECT: "redirect", unix.RTPROT_KERNEL: "kernel",
		unix.RTPROT_BOOT: "boot", unix.RTPROT_STATIC: "static", unix.RTPROT_GATED: "gated",
		unix.RTPROT_RA: "ra", unix.RTPROT_ZEBRA: "zebra", unix.RTPROT_BIRD: "bird",
		unix.RTPROT_BABEL: "babel", unix.RTPROT_DHCP: "dhcp", unix.RTPROT_KEEPALIVED: "keepalived",
		unix.RTPROT_BGP: "bgp", unix.RTPROT_ISIS: "isis", unix.RTPROT_OSPF: "ospf",
		unix.RTPROT_RIP: "rip", unix.RTPROT_EIGRP: "eigrp",
	}
)

func nameOf(names map[uint8]string, n uint8) string {
	if name, ok := names[n]; ok {
		return name
	}
	return strconv.Itoa(int(n))
}

// stateName returns the state of a neighbor as `ip neigh` prints it, in lower case.
func stateName(state uint16) string {
	switch state {
	case unix.NUD_NONE:
		return "none"
	case unix.NUD_INCOMPLETE:
		return "incomplete"
	case unix.NUD_REACHABLE:
		return "reachable"
	case unix.NUD_STALE:
		return "stale"
	case unix.NUD_DELAY:
		return "delay"
	case unix.NUD_PROBE:
		return "probe"
	case unix.NUD_FAILED:
		return "failed"
	case unix.NUD_NOARP:
		return "noarp"
	case unix.NUD_PERMANENT:
		return "permanent"
	}
	return fmt.Sprintf("%#x", state)
}
