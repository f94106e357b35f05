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

// Unsupported is why the router does not treat a route as Linux does.
type Unsupported string

// The reasons, as JSON has them.
const (
	NoPort        Unsupported = "no_port"   // leaves by an interface that is not a port: dropped
	Encap         Unsupported = "encap"     // needs a header that the router does not make: dropped
	MulticastType Unsupported = "multicast" // `ip route add multicast`, to unicast addresses: dropped, as by Linux
	ByTOS         Unsupported = "tos"       // for a type of service: ignored
	BySource      Unsupported = "source"    // for some sources: ignored
	LocalPrefix   Unsupported = "local"     // a local prefix (AnyIP): dropped
)

var unsupportedTexts = map[Unsupported]struct{ what, hint string }{
	NoPort:        {"routes leave by an interface that is not a port: packets that take them are dropped as no_port", "add the interface as a port, or route the prefixes by a port"},
	Encap:         {"routes need an encapsulation (MPLS, SRv6, tunnels), which is not supported: packets that take them are dropped as no_port", "route the prefixes without encap"},
	MulticastType: {"routes of type multicast lead to unicast addresses: their packets are dropped as blackhole, as Linux drops them", "delete the routes, or add them without the word multicast"},
	ByTOS:         {"routes by type of service are not supported, and ignored", "delete the routes, or add them without tos"},
	BySource:      {"routes by source address are not supported, and ignored", "delete the routes, or add them without from"},
	LocalPrefix:   {"local routes of more than one address are not supported: packets to them are dropped as local_delivery", "add the addresses one by one"},
}

// Text says what becomes of the routes.
func (u Unsupported) Text() string { return unsupportedTexts[u].what }

// Hint says what to do about them.
func (u Unsupported) Hint() string { return unsupportedTexts[u].hint }

// UnsupportedRoutes are routes over one interface with the same reason.
type UnsupportedRoutes struct {
	Reason   Unsupported
	Dev      string         // interface, "" where it does not matter
	Routes   int            // how many
	Prefixes []netip.Prefix // the first of them, up to maxPrefixes
}

// List is the prefixes for people: "10.0.0.0/8, 10.1.0.0/16 and 3 more".
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

// Bounds of what is remembered and logged.
const (
	maxPrefixes = 3       // named in a report
	maxReports  = 64      // reasons and interfaces in a round of reports
	maxNoted    = 1 << 14 // routes that are not reported again
	reportEvery = 10 * time.Second
)

// reports collects unsupported routes until they are logged. Each is logged once.
type reports struct {
	pending []UnsupportedRoutes
	noted   map[notedRoute]bool
	last    time.Time // of the last round
}

type notedRoute struct {
	reason Unsupported
	dev    string
	prefix netip.Prefix
}

// note has a route reported.
func (s *state) note(reason Unsupported, dev string, p netip.Prefix) {
	key := notedRoute{reason, dev, p}
	if s.reports.noted[key] || len(s.reports.noted) >= maxNoted {
		return
	}
	if s.reports.noted == nil {
		s.reports.noted = map[notedRoute]bool{}
	}
	s.reports.noted[key] = true
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

// forget lets a deleted route be reported again when it is added again.
func (s *state) forget(r *rtnl.Route) {
	if len(s.reports.noted) == 0 {
		return
	}
	for reason := range unsupportedTexts {
		delete(s.reports.noted, notedRoute{reason, "", r.Dst})
		for _, h := range r.Hops {
			delete(s.reports.noted, notedRoute{reason, s.linkName(h.Index), r.Dst})
		}
	}
}

// noteHop has a route reported whose hop leads to no port.
func (s *state) noteHop(r *rtnl.Route, h *hop) {
	dropped := h.kind == fib.KindNoPort
	if !dropped && (h.kind != fib.KindForward || len(h.paths) < 2) {
		return
	}
	for i := range h.paths {
		reason, dev := s.unsupported(&h.paths[i]), s.linkName(h.paths[i].link)
		l := s.links[h.paths[i].link]
		switch {
		case reason == Encap:
			s.note(reason, dev, r.Dst)
		case reason == "" || !dropped || l == nil || l.Flags&unix.IFF_LOOPBACK != 0:
		case dev != s.hooks.Own:
			s.note(reason, dev, r.Dst)
		}
	}
}

// unsupported says why packets do not leave by a path, "" if they do.
func (s *state) unsupported(p *path) Unsupported {
	switch {
	case p.encap:
		return Encap
	case s.portNumber(p.link) < 0:
		return NoPort
	}
	return ""
}

// report logs what was noted, but for the first round not more often than every reportEvery.
func (s *state) report(now time.Time) {
	if len(s.reports.pending) == 0 || now.Sub(s.reports.last) < reportEvery {
		return
	}
	for _, u := range s.reports.pending {
		s.log.Warn(u.Reason.Text(), "interface", u.Dev, "routes", u.Routes, "prefixes", u.List(), "hint", u.Reason.Hint())
	}
	s.reports.pending, s.reports.last = nil, now
}

// Survey lists what a router with such ports would not support of the routes in the calling
// thread's network namespace. It changes nothing.
func Survey(ports []Port) ([]UnsupportedRoutes, error) {
	conn, err := rtnl.Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var s state
	if err := s.init(fib.New(0), ports, Hooks{}, slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	queries := []rtnl.Query{rtnl.Links(), rtnl.Nexthops(), rtnl.Routes(unix.AF_INET), rtnl.Routes(unix.AF_INET6)}
	for _, q := range queries {
		if err := conn.Dump(q, s.handle); err != nil {
			return nil, err
		}
	}
	return s.reports.pending, nil
}
