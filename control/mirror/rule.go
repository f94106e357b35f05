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

// Policy rules other than Linux's own three are not followed. One more is known: charon
// (strongSwan) always has a rule with priority 220 that looks into table 220 first. There it
// puts (install_routes) a route for each remote network, by the way to the peer, whose source
// address is the tunnel's for what the host itself sends. What policies protect is routed by
// its outer header, so only packets that no policy matches could go elsewhere than by table
// main. Where they do not, there is nothing to say.
const charonTable, charonPriority = 220, 220

// maxCharonRoutes bounds how many of its routes are compared with those of table main.
const maxCharonRoutes = 1 << 12

// charon is what is known of its rule and table.
type charon struct {
	rule    [2]bool // by family
	routes  map[netip.Prefix]rtnl.Route
	changed bool
}

// setRule applies a rule that was added or deleted.
func (s *state) setRule(r *rtnl.Rule, deleted bool) {
	switch {
	case r.Family != unix.AF_INET && r.Family != unix.AF_INET6: // multicast routing's
	case r.Plain && r.Table == charonTable && r.Priority == charonPriority:
		s.charon.rule[familyIndex(r.Family)] = !deleted
		s.charon.changed = true
	case deleted,
		r.Plain && r.Table == unix.RT_TABLE_LOCAL && r.Priority == 0,
		r.Plain && r.Table == unix.RT_TABLE_MAIN && r.Priority == 32766,
		r.Plain && r.Table == unix.RT_TABLE_DEFAULT && r.Priority == 32767:
	default:
		s.warnOnce("rule", fmt.Sprintf("policy rules are not supported: the one with priority %d (table %d) is ignored", r.Priority, r.Table))
	}
}

func familyIndex(family uint8) int {
	if family == unix.AF_INET {
		return 0
	}
	return 1
}

// setCharonRoute notes a route of table 220, or that it is gone.
func (s *state) setCharonRoute(r *rtnl.Route, deleted bool) {
	switch {
	case deleted:
		delete(s.charon.routes, r.Dst)
	case r.Type == unix.RTN_THROW || r.Flags&unix.RTM_F_CLONED != 0: // which leads on to table main
		return
	case len(s.charon.routes) < maxCharonRoutes:
		copied := *r
		copied.Hops = slices.Clone(r.Hops)
		if s.charon.routes == nil {
			s.charon.routes = map[netip.Prefix]rtnl.Route{}
		}
		s.charon.routes[r.Dst] = copied
	}
	s.charon.changed = true
}

// checkCharon warns where the routes of table 220 lead elsewhere than those of table main.
func (s *state) checkCharon() {
	if !s.charon.changed {
		return
	}
	s.charon.changed = false
	var differ []string
	for p, r := range s.charon.routes {
		if s.charon.rule[familyOf(p.Addr())] && !s.leadsAlike(p, &r) {
			differ = append(differ, p.String())
		}
	}
	if len(differ) == 0 {
		s.charonTold = ""
		return
	}
	slices.Sort(differ)
	n := len(differ)
	text := strings.Join(differ[:min(n, maxPrefixes)], ", ")
	if n > maxPrefixes {
		text += fmt.Sprintf(" and %d more", n-maxPrefixes)
	}
	if text == s.charonTold {
		return
	}
	s.charonTold = text
	s.keepWarning("charon", "policy rules are not supported: table 220 leads some prefixes elsewhere than table main, by which packets go that no IPsec policy matches: "+text)
	s.log.Warn("table 220 leads elsewhere than table main, by which packets go that no IPsec policy matches", "routes", n, "prefixes", text,
		"hint", "set charon.install_routes = no in strongswan.conf, or add the routes to table main, too")
}

// leadsAlike reports whether table main leads all of a prefix where a route does.
func (s *state) leadsAlike(p netip.Prefix, r *rtnl.Route) bool {
	_, head, found := s.routes.LookupPrefixLPM(p)
	if !found || !alike(head.best().hop, r) {
		return false
	}
	for inner, head := range s.routes.Subnets(p) {
		if inner != p && head.best().table() != unix.RT_TABLE_LOCAL && !alike(head.best().hop, r) {
			return false
		}
	}
	return true
}

// alike reports whether a hop leads where a route does.
func alike(h *hop, r *rtnl.Route) bool {
	kind, _ := kindOf(r)
	if kind != fib.KindForward || h.kind != fib.KindForward && h.kind != fib.KindNoPort || len(h.paths) != len(r.Hops) {
		return kind == h.kind && kind != fib.KindForward
	}
	return !slices.ContainsFunc(r.Hops, func(hop rtnl.Hop) bool { return !h.leads(hop.Index, hop.Gateway) })
}
