package mirror

import (
	"time"

	"github.com/warproute/warproute/control/rtnl"
)

// Delay of the resync after a route's lifetime ends, since kernel ticks are coarse, and its
// interval while Linux has expired routes.
const (
	expiryDelay     = 50 * time.Millisecond
	expiredInterval = 5 * time.Second
)

// expired reports whether the lifetime of an IPv6 route has ended. Linux ignores it then, and
// deletes it up to 30 s later (ip6_rt_gc_interval). There is no event for the end of a
// lifetime or its extension by a router advertisement, so a resync is scheduled.
func (s *state) expired(r *rtnl.Route) bool {
	if r.Lifetime == 0 {
		return false
	}
	wait := r.Lifetime + expiryDelay
	if r.Lifetime < 0 {
		wait = expiredInterval
	}
	if at := time.Now().Add(wait); s.expiry.IsZero() || at.Before(s.expiry) {
		s.expiry = at
	}
	return r.Lifetime < 0
}

// expire schedules a resync when a route's lifetime could have ended.
func (s *state) expire(now time.Time) {
	if !s.expiry.IsZero() && now.After(s.expiry) {
		s.expiry = time.Time{}
		s.suspects.addAll()
	}
}
