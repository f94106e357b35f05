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

// state is what the mirror knows of Linux, and what of it is in the forwarding
// base. It does no I/O, and belongs to one goroutine.
type state struct {
	fib   *fib.FIB
	hooks Hooks
	log   *slog.Logger

	ports     []port
	links     map[int]*link            // by index
	objects   map[uint32]*object       // next-hop objects, by number
	routes    bart.Table[*route]       // the routes of each prefix, best first
	neighbors map[neighborID]*neighbor // on ports
	resolved  bart.Table[int]          // addresses that have resolved neighbours, with how many
	hosts     map[netip.Addr]*hop      // those of them that have host routes in the base
	locals    map[netip.Addr]struct{}  // as the hooks know them
	sources   map[netip.Addr]int       // preferred source addresses, with how many IPv4 routes have them

	answered    func(neighborID)  // told of neighbours that can be sent to; may be nil
	hops        map[string]*hop   // by key
	ofObject    map[uint32][]*hop // of these, those that stand for next-hop objects
	noRoom      *hop              // for routes whose own hop found no room: it drops
	adjacencies map[neighborID]*adjacency
	numbered    map[uint32]*adjacency // the same by number in the base

	dirty    [2]dirty // IPv4, IPv6
	idleHops []*hop   // perhaps unused; flush frees them
	idleAdjs []*adjacency
	orphaned bool // a next-hop object was deleted that routes use
	changed  bool // something in the base that may let held packets go on

	epoch    uint32    // of the comparison with a dump that is on or was last
	suspects suspects  // what to compare next
	marking  bool      // routes that come are only marked, not learnt
	catchUp  bool      // events may be older than the last full dump
	raced    bool      // and contradict it
	expiry   time.Time // when the time of a route may be over; zero: never

	warnings   []string
	warned     map[string]bool
	reports    reports
	charon     charon
	charonTold string // prefixes of its table that were warned of last

	// Scratch space of one message.
	link  rtnl.Link
	route rtnl.Route
	key   []byte
}

func (s *state) init(f *fib.FIB, ports []Port, hooks Hooks, log *slog.Logger) error {
	if len(ports) > batch.MaxPorts {
		return fmt.Errorf("%d ports: at most %d are supported", len(ports), batch.MaxPorts)
	}
	*s = state{
		fib: f, hooks: hooks, log: log,
		links:       map[int]*link{},
		objects:     map[uint32]*object{},
		neighbors:   map[neighborID]*neighbor{},
		hosts:       map[netip.Addr]*hop{},
		locals:      map[netip.Addr]struct{}{},
		sources:     map[netip.Addr]int{},
		hops:        map[string]*hop{},
		ofObject:    map[uint32][]*hop{},
		adjacencies: map[neighborID]*adjacency{},
		numbered:    map[uint32]*adjacency{},
		warned:      map[string]bool{},
	}
	for _, p := range ports {
		s.ports = append(s.ports, port{Port: p})
	}
	s.noRoom = s.hopOf(&rtnl.Route{Type: unix.RTN_THROW}, nil)
	if s.noRoom.id == 0 {
		return fmt.Errorf("make the first next hop: %w", fib.ErrFull)
	}
	return nil
}

// handle applies a message of Linux to the state.
func (s *state) handle(msg rtnl.Message) error {
	switch msg.Type {
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		if err := s.route.Parse(msg.Data); err != nil {
			return err
		}
		if msg.Type == unix.RTM_NEWROUTE {
			s.learn(&s.route, msg.Flags)
		} else {
			s.unlearn(&s.route)
		}
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		var n rtnl.Neighbor
		if err := n.Parse(msg.Data); err != nil {
			return err
		}
		s.setNeighbor(&n, msg.Type == unix.RTM_DELNEIGH)
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		if err := s.link.Parse(msg.Data); err != nil {
			return err
		}
		if msg.Type == unix.RTM_NEWLINK {
			s.setLink(&s.link)
		} else if s.link.Family == unix.AF_UNSPEC {
			s.deleteLink(s.link.Index)
		}
	case unix.RTM_NEWNEXTHOP, unix.RTM_DELNEXTHOP:
		n := new(rtnl.Nexthop)
		if err := n.Parse(msg.Data); err != nil {
			return err
		}
		if msg.Type == unix.RTM_NEWNEXTHOP {
			s.setObject(n)
		} else {
			s.deleteObject(n.ID)
		}
	case unix.RTM_DELADDR:
		var a rtnl.Address
		if err := a.Parse(msg.Data); err != nil {
			return err
		}
		if a.Local.Is4() {
			s.suspects.addr(a.Index, a.Local)
		} else {
			// With IPv6 on the link, perhaps, whose routes go in silence then where
			// net.ipv6.route.skip_notify_on_dev_down is on.
			s.suspects.link(a.Index)
		}
	case unix.RTM_NEWADDR:
		var a rtnl.Address
		if err := a.Parse(msg.Data); err != nil {
			return err
		}
		s.setUpAgain(a.Index)
	case unix.RTM_NEWRULE, unix.RTM_DELRULE:
		var r rtnl.Rule
		if err := r.Parse(msg.Data); err != nil {
			return err
		}
		s.setRule(&r, msg.Type == unix.RTM_DELRULE)
	case unix.RTM_NEWNETCONF:
		told, err := rtnl.TellsOfLinkdown(msg.Data)
		if err != nil {
			return err
		}
		if told && s.hasLinkdown() {
			s.suspects.everything() // Linux says of no route whether it uses it from now on
		}
	}
	return nil
}

// warnOnce logs a warning and keeps it for Status, the first time for each kind.
func (s *state) warnOnce(kind, text string) {
	if s.keepWarning(kind, text) {
		s.log.Warn(text)
	}
}

// keepWarning keeps a warning for Status, the first time for each kind, and reports whether
// it was the first.
func (s *state) keepWarning(kind, text string) (first bool) {
	if s.warned[kind] {
		return false
	}
	s.warned[kind] = true
	s.warnings = append(s.warnings, text)
	return true
}
