package mirror

import (
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/gaissmai/bart"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
)

// state is the copy of Linux's links, routes, next-hop objects and neighbors, with the FIB entries
// that it wrote for them. It does no I/O, and belongs to one goroutine.
type state struct {
	fib   *fib.FIB
	hooks Hooks
	log   *slog.Logger

	ports     []port                   // physical
	logical   map[int]*logical         // by number
	bonds     []*bond                  // whose members are physical ports
	children  map[int][]int            // VLAN links by parent
	links     map[int]*link            // by index
	objects   map[uint32]*object       // next-hop objects, by ID
	main      *table                   // tables local, main and default
	vrfs      map[uint32]*table        // of VRFs, by table of Linux
	rules     map[string][]ingressRule // by ingress interface
	combined  map[tablesBefore]*combined
	missing   uint16                   // see noTable; 0 before the first use
	neighbors map[neighborID]*neighbor // on ports
	resolved  bart.Table[int]          // addresses of resolved neighbors, with the number of links
	locals    map[netip.Addr]int       // as reported to the hooks, with the number of tables
	sources   map[netip.Addr]int       // preferred source addresses, with the number of IPv4 routes

	onResolved    func(neighborID)  // called for resolved neighbors; may be nil
	hops          map[string]*hop   // by key
	ofObject      map[uint32][]*hop // of these, the ones of next-hop objects, by ID
	fallbackHop   *hop              // for routes that found the next-hop table full: drops packets
	adjacencies   map[neighborID]*adjacency
	adjacencyByID map[uint32]*adjacency

	idleHops       []*hop // possibly unused; writeChanges frees them
	idleAdjs       []*adjacency
	tunnelsChanged bool // for the hook

	orphaned bool // a next-hop object in use was deleted
	changed  bool // the FIB has changes that are not committed: copies on devices follow, and waiting packets are retried, after Commit

	dumpSeq    uint32   // number of the current or last comparison with a dump
	suspects   suspects // to compare next
	forwarding linuxForwarding
	onlyKeep   bool      // routes of a dump are only kept from the sweep (keepRoute), and not added
	catchUp    bool      // events can precede the last full dump
	raced      bool      // an event contradicts the dump
	expiry     time.Time // next end of a route's lifetime; zero: none

	warnings     []string
	warned       map[string]bool
	reports      reports
	charon       charon
	charonWarned string // prefixes of the last warning

	// Scratch space for one message.
	route rtnl.Route
	key   []byte
}

func (s *state) init(f *fib.FIB, ports []Port, hooks Hooks, log *slog.Logger) error {
	if len(ports) > batch.MaxPorts {
		return fmt.Errorf("%d ports: at most %d are supported", len(ports), batch.MaxPorts)
	}
	*s = state{
		fib: f, hooks: hooks, log: log,
		links:         map[int]*link{},
		objects:       map[uint32]*object{},
		neighbors:     map[neighborID]*neighbor{},
		main:          newTable(unix.RT_TABLE_MAIN, 0),
		vrfs:          map[uint32]*table{},
		rules:         map[string][]ingressRule{},
		combined:      map[tablesBefore]*combined{},
		locals:        map[netip.Addr]int{},
		sources:       map[netip.Addr]int{},
		hops:          map[string]*hop{},
		ofObject:      map[uint32][]*hop{},
		adjacencies:   map[neighborID]*adjacency{},
		adjacencyByID: map[uint32]*adjacency{},
		warned:        map[string]bool{},
		logical:       map[int]*logical{},
		children:      map[int][]int{},
	}
	f.VLANs.SetPhysical(len(ports))
	for _, p := range ports {
		s.ports = append(s.ports, port{Port: p})
	}
	s.initBonds()
	s.fallbackHop = s.hopOf(&rtnl.Route{Type: unix.RTN_THROW}, nil)
	if s.fallbackHop.id == 0 {
		return fmt.Errorf("add next hop: %w", fib.ErrFull)
	}
	return nil
}

// handle applies a netlink message.
func (s *state) handle(msg rtnl.Message) error {
	switch msg.Type {
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE: // no allocation per route
		if err := s.route.Parse(msg.Data); err != nil {
			return err
		}
		if msg.Type == unix.RTM_NEWROUTE {
			s.addRoute(&s.route, msg.Flags)
		} else {
			s.deleteRoute(&s.route)
		}
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		return rtnl.Parse(msg, func(n *rtnl.Neighbor) { s.setNeighbor(n, msg.Type == unix.RTM_DELNEIGH) })
	case unix.RTM_NEWLINK:
		return rtnl.Parse(msg, s.setLink)
	case unix.RTM_DELLINK:
		return rtnl.Parse(msg, func(l *rtnl.Link) {
			if l.Family == unix.AF_UNSPEC {
				s.deleteLink(l.Index)
			}
		})
	case unix.RTM_NEWNEXTHOP:
		return rtnl.Parse(msg, s.setObject)
	case unix.RTM_DELNEXTHOP:
		return rtnl.Parse(msg, func(n *rtnl.NexthopObject) { s.deleteObject(n.ID) })
	case unix.RTM_NEWADDR:
		return rtnl.Parse(msg, func(a *rtnl.Address) { s.restoreSuppressed(a.Index) })
	case unix.RTM_DELADDR:
		return rtnl.Parse(msg, func(a *rtnl.Address) {
			if a.Local.Is4() {
				s.suspects.addAddr(a.Index, a.Local)
			} else {
				// Possibly IPv6 was disabled on the link, which deletes its routes without events
				// if net.ipv6.route.skip_notify_on_dev_down is on.
				s.suspects.addLink(a.Index)
			}
		})
	case unix.RTM_NEWRULE, unix.RTM_DELRULE:
		return rtnl.Parse(msg, func(r *rtnl.Rule) { s.setRule(r, msg.Type == unix.RTM_DELRULE) })
	case unix.RTM_NEWNETCONF:
		if err := rtnl.Parse(msg, s.setForwarding); err != nil {
			return err
		}
		changed, err := rtnl.ChangesLinkdown(msg.Data)
		if changed && s.hasLinkdown() {
			s.suspects.addAll() // there are no events for the affected routes
		}
		return err
	}
	return nil
}

// warnOnce logs how forwarding differs from Linux and keeps it for Status, once per kind.
func (s *state) warnOnce(kind, text string) {
	if s.keepWarning(kind, text) {
		s.log.Warn("forwarding differs from linux", "reason", text)
	}
}

// keepWarning keeps a warning for Status, once per kind, and reports whether it was the first.
func (s *state) keepWarning(kind, text string) (first bool) {
	if s.warned[kind] {
		return false
	}
	s.warned[kind] = true
	s.warnings = append(s.warnings, text)
	return true
}
