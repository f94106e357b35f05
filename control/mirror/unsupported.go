package mirror

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
)

// Unsupported is a reason for not handling a route as Linux does.
type Unsupported string

// Reasons, as in JSON.
const (
	NoPort        Unsupported = "no_port"   // interface is not a port, and Linux does not forward to it: dropped
	Encap         Unsupported = "encap"     // needs an encapsulation: dropped
	Detached      Unsupported = "detached"  // XFRM interface without a fixed if_id, in a VRF, or of another network namespace: dropped
	MulticastType Unsupported = "multicast" // `ip route add multicast`, to unicast addresses: dropped, as by Linux
	ByTOS         Unsupported = "tos"       // by type of service: ignored
	BySource      Unsupported = "source"    // by source: ignored
	LocalPrefix   Unsupported = "local"     // a local prefix (AnyIP): dropped
)

// exitsByLinux marks routes in reports whose packets Linux forwards.
const exitsByLinux Unsupported = "linux"

// Exits reports whether Linux forwards the packets of the routes.
func (u Unsupported) Exits() bool { return u == exitsByLinux }

var unsupportedTexts = map[Unsupported]struct{ what, hint string }{
	NoPort:        {"routes leave by an interface that is not a port: packets dropped as no_port", "add the interface as a port, route the prefixes by a port, or have Linux forward on it (sysctl net.ipv4.ip_forward, net.ipv6.conf.all.forwarding; exit.linux on a gateway; not for packets in a VRF)"},
	exitsByLinux:  {"routes leave by an interface that is not a port: Linux forwards their packets, unless the router is an IPsec gateway (exit.linux)", "add the interface as a port if their traffic exceeds a share of a core (exit.share)"},
	Encap:         {"routes with encapsulation (MPLS, SRv6, tunnels) are not supported: packets dropped as no_port", "route the prefixes without encap"},
	Detached:      {"routes leave by an XFRM interface that is external (without a fixed if_id), in a VRF, or of another network namespace: packets dropped as no_port", "create the interface in the router's namespace with an if_id (ip link add NAME type xfrm if_id N), without a master"},
	MulticastType: {"routes of type multicast have unicast prefixes: packets dropped as blackhole, as in Linux", "delete the routes, or add them without the word multicast"},
	ByTOS:         {"routes by type of service are not supported: ignored", "delete the routes, or add them without tos"},
	BySource:      {"routes by source address are not supported: ignored", "delete the routes, or add them without from"},
	LocalPrefix:   {"local routes of more than one address are not supported: packets dropped as local_delivery", "add the addresses one by one"},
}

// Text describes the consequence.
func (u Unsupported) Text() string { return unsupportedTexts[u].what }

// Hint returns how to fix the routes.
func (u Unsupported) Hint() string { return unsupportedTexts[u].hint }

// UnsupportedRoutes are routes over one interface with the same reason.
type UnsupportedRoutes struct {
	Reason   Unsupported
	Dev      string         // interface, "" if irrelevant
	Routes   int            // how many
	Prefixes []netip.Prefix // the first maxPrefixes
}

// List returns the prefixes as text: "10.0.0.0/8, 10.1.0.0/16 and 3 more".
func (u *UnsupportedRoutes) List() string {
	var names []string
	for _, p := range u.Prefixes {
		names = append(names, p.String())
	}
	text := strings.Join(names, ", ")
	if more := u.Routes - len(u.Prefixes); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Limits of reports.
const (
	maxPrefixes = 3       // listed in a report
	maxReports  = 64      // reasons and interfaces per round
	maxReported = 1 << 14 // routes that are reported only once
	reportEvery = 10 * time.Second
)

// reports collects unsupported routes for logging. Each is logged once.
type reports struct {
	pending  []UnsupportedRoutes
	reported map[reportedRoute]bool
	last     time.Time // of the last round
}

type reportedRoute struct {
	reason Unsupported
	dev    string
	prefix netip.Prefix
}

// queueReport queues a report of a route.
func (s *state) queueReport(reason Unsupported, dev string, p netip.Prefix) {
	key := reportedRoute{reason, dev, p}
	if s.reports.reported[key] || len(s.reports.reported) >= maxReported {
		return
	}
	if s.reports.reported == nil {
		s.reports.reported = map[reportedRoute]bool{}
	}
	s.reports.reported[key] = true
	i := slices.IndexFunc(s.reports.pending, func(u UnsupportedRoutes) bool { return u.Reason == reason && u.Dev == dev })
	if i < 0 {
		if len(s.reports.pending) == maxReports {
			return
		}
		i = len(s.reports.pending)
		s.reports.pending = append(s.reports.pending, UnsupportedRoutes{Reason: reason, Dev: dev})
	}
	u := &s.reports.pending[i]
	if u.Routes++; len(u.Prefixes) < maxPrefixes {
		u.Prefixes = append(u.Prefixes, p)
	}
}

// permitReport permits another report when a deleted route is added again.
func (s *state) permitReport(r *rtnl.Route) {
	if len(s.reports.reported) == 0 {
		return
	}
	for reason := range unsupportedTexts {
		delete(s.reports.reported, reportedRoute{reason, "", r.Dst})
		for _, p := range r.Paths {
			delete(s.reports.reported, reportedRoute{reason, s.linkName(p.Index), r.Dst})
		}
	}
}

// reportHop queues a report of a route whose paths are unsupported.
func (s *state) reportHop(r *rtnl.Route, h *hop) {
	dropped := h.kind == fib.KindNoPort
	if !dropped && (h.kind != fib.KindForward || len(h.paths) < 2) {
		return
	}
	for i := range h.paths {
		reason, dev := s.unsupported(&h.paths[i]), s.linkName(h.paths[i].link)
		if reason == NoPort && s.tableOf(r.Table) == s.main && h.exitsByLinux(r.Family == unix.AF_INET) {
			reason = exitsByLinux
		}
		l := s.links[h.paths[i].link]
		switch {
		case reason == Encap:
			s.queueReport(reason, dev, r.Dst)
		case reason == "" || !dropped || l == nil || l.Flags&unix.IFF_LOOPBACK != 0:
		case dev != s.hooks.Own:
			s.queueReport(reason, dev, r.Dst)
		}
	}
}

// unsupported returns the reason for not using a path, "" for none.
func (s *state) unsupported(p *path) Unsupported {
	switch {
	case p.encap:
		return Encap
	case s.tunnelOf(p) != 0:
		return ""
	case s.hooks.Tunnels != nil && s.links[p.link] != nil && s.links[p.link].Kind == "xfrm":
		return Detached
	case s.portNumber(p.link) < 0:
		return NoPort
	}
	return ""
}

// report logs queued reports, at most once per reportEvery after the first time.
func (s *state) report(now time.Time) {
	if len(s.reports.pending) == 0 || now.Sub(s.reports.last) < reportEvery {
		return
	}
	for _, u := range s.reports.pending {
		if u.Reason.Exits() {
			s.log.Info("routes exit by linux", "interface", u.Dev, "routes", u.Routes, "prefixes", u.List())
			continue
		}
		s.log.Warn("unsupported routes", "reason", u.Reason.Text(), "interface", u.Dev, "routes", u.Routes, "prefixes", u.List(), "hint", u.Reason.Hint())
	}
	s.reports.pending, s.reports.last = nil, now
}

// Survey lists the routes in the calling thread's network namespace that a router with these
// ports would not support, or pass to Linux, and the warnings that Status would have, such as of policy rules and VRFs. It
// changes nothing.
func Survey(ports []Port) (routes []UnsupportedRoutes, warnings []string, err error) {
	conn, err := rtnl.Dial()
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close()
	var s state
	if err := s.init(fib.New(0), ports, Hooks{VRFs: true, Exits: true, Tunnels: func([]Tunnel) {}}, slog.New(slog.DiscardHandler)); err != nil {
		return nil, nil, err
	}
	if err := s.readForwarding(conn); err != nil {
		return nil, nil, err
	}
	queries := []rtnl.Query{rtnl.Links(), rtnl.NexthopObjects()}
	for _, f := range families {
		queries = append(queries, rtnl.Routes(f), rtnl.Rules(f))
	}
	for _, q := range queries {
		if err := conn.Dump(q, s.handle); err != nil {
			return nil, nil, err
		}
	}
	s.checkDefaults()
	return s.reports.pending, s.warnings, nil
}
