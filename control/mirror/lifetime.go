package mirror

import (
	"time"

	"github.com/warproute/warproute/control/rtnl"
)

// How long after the end of a route's time Linux is looked at, whose ticks are coarser than
// our clock, and how often while it has routes whose time is over.
const (
	afterTheEnd  = 50 * time.Millisecond
	whileExpired = 5 * time.Second
)

// expired passes over an IPv6 route whose time is over. Linux does so, too, and deletes it up
// to half a minute later (ip6_rt_gc_interval). It tells nobody when the time is over, nor when
// a router advertisement gives the route more: so the end of each route's time, and what
// becomes of the expired ones, is found out by comparing.
func (s *state) expired(r *rtnl.Route) bool {
	if r.Lifetime == 0 {
		return false
	}
	wait := r.Lifetime + afterTheEnd
	if r.Lifetime < 0 {
		wait = whileExpired
	}
	if at := time.Now().Add(wait); s.expiry.IsZero() || at.Before(s.expiry) {
		s.expiry = at
	}
	return r.Lifetime < 0
}

// expire has routes compared with Linux's if the time of one may be over.
func (s *state) expire(now time.Time) {
	if !s.expiry.IsZero() && now.After(s.expiry) {
		s.expiry = time.Time{}
		s.suspects.everything()
	}
}
