package mirror

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
)

// Policy rules beyond Linux's default three are not supported, except those by ingress interface (see ingress.go), that
// of VRFs (l3mdev), and that of charon (strongSwan): priority 220, table 220, to which charon adds (install_routes) a route to each
// remote network through the peer's gateway, with a source address for local traffic. Protected
// packets are routed by their outer header, so the table only matters for packets without a
// policy, and only if it leads to other next hops than table main.
const charonTable, charonPriority = 220, 220

// maxCharonRoutes limits the comparison with table main.
const maxCharonRoutes = 1 << 12

// charon holds the rule and the table of charon.
type charon struct {
	rule    [2]bool // by family
	routes  map[netip.Prefix]rtnl.Route
	changed bool
}

// setRule applies a rule that was added or deleted.
func (s *state) setRule(r *rtnl.Rule, deleted bool) {
	switch {
	case r.Family != unix.AF_INET && r.Family != unix.AF_INET6: // multicast routing
	case r.Ingress == "lo": // packets of this host
	case r.Ingress != "" && s.hooks.VRFs:
		s.setIngressRule(r, deleted)
	case r.Ingress == "" && r.Plain && r.Table == charonTable && r.Priority == charonPriority:
		s.charon.rule[familyIndex(r.Family)] = !deleted
		s.charon.changed = true
	case r.VRFs && s.hooks.VRFs:
		s.checkVRFRule(r, deleted)
	case deleted, isDefaultRule(r):
	default:
		s.warnOnce("rule", fmt.Sprintf("policy rules are not supported: rule with priority %d (table %d) ignored", r.Priority, r.Table))
	}
}

// isDefaultRule reports whether Linux has a rule by default.
func isDefaultRule(r *rtnl.Rule) bool {
	switch {
	case !r.Plain || r.Ingress != "":
		return false
	case r.Table == unix.RT_TABLE_LOCAL:
		return r.Priority < mainPriority // it may be moved behind that of VRFs
	case r.Table == unix.RT_TABLE_MAIN:
		return r.Priority == mainPriority
	}
	return r.Table == unix.RT_TABLE_DEFAULT && r.Priority == 32767
}

func familyIndex(family uint8) int {
	if family == unix.AF_INET {
		return 0
	}
	return 1
}

// setCharonRoute adds or deletes a route of table 220.
func (s *state) setCharonRoute(r *rtnl.Route, deleted bool) {
	switch {
	case deleted:
		delete(s.charon.routes, r.Dst)
	case r.Type == unix.RTN_THROW || r.Flags&unix.RTM_F_CLONED != 0: // continues with table main
		return
	case len(s.charon.routes) < maxCharonRoutes:
		copied := *r
		copied.Paths = slices.Clone(r.Paths)
		if s.charon.routes == nil {
			s.charon.routes = map[netip.Prefix]rtnl.Route{}
		}
		s.charon.routes[r.Dst] = copied
	}
	s.charon.changed = true
}

// checkCharon warns of routes of table 220 with other next hops than in table main.
func (s *state) checkCharon() {
	if !s.charon.changed {
		return
	}
	s.charon.changed = false
	var differ []string
	for p, r := range s.charon.routes {
		if s.charon.rule[familyOf(p.Addr())] && !s.sameNextHops(p, &r) {
			differ = append(differ, p.String())
		}
	}
	if len(differ) == 0 {
		s.charonWarned = ""
		return
	}
	slices.Sort(differ)
	n := len(differ)
	text := strings.Join(differ[:min(n, maxPrefixes)], ", ")
	if n > maxPrefixes {
		text += fmt.Sprintf(" and %d more", n-maxPrefixes)
	}
	if text == s.charonWarned {
		return
	}
	s.charonWarned = text
	s.keepWarning("charon", "policy rules are not supported: table 220 has other next hops than table main, which packets without an IPsec policy take: "+text)
	s.log.Warn("table 220 has other next hops than table main, which packets without an IPsec policy take", "routes", n, "prefixes", text,
		"hint", "set charon.install_routes = no in strongswan.conf, or add the routes to table main")
}

// sameNextHops reports whether table main has the next hop of a route for its whole prefix.
func (s *state) sameNextHops(p netip.Prefix, r *rtnl.Route) bool {
	_, head, found := s.main.routes.LookupPrefixLPM(p)
	if !found || !sameNextHop(head.best().hop, r) {
		return false
	}
	for inner, head := range s.main.routes.Subnets(p) {
		if inner != p && head.best().table() != unix.RT_TABLE_LOCAL && !sameNextHop(head.best().hop, r) {
			return false
		}
	}
	return true
}

// sameNextHop reports whether a hop has the next hop of a route.
func sameNextHop(h *hop, r *rtnl.Route) bool {
	kind, _ := kindOf(r)
	if kind != fib.KindForward || h.kind != fib.KindForward && h.kind != fib.KindNoPort || len(h.paths) != len(r.Paths) {
		return kind == h.kind && kind != fib.KindForward
	}
	return !slices.ContainsFunc(r.Paths, func(p rtnl.Path) bool { return !h.hasGateway(p.Index, p.Gateway) })
}
