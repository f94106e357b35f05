package ipsec

import (
	"math"
	"sync/atomic"
	"time"
)

// Clock is a coarse clock that workers set once per batch, so that packets need no clock reading.
// The zero Clock reads 0.
type Clock struct{ now atomic.Int64 }

// granularity is the smallest step of a Clock, so that workers that share one rarely write to it.
const granularity = int64(10 * time.Millisecond)

// Set advances the clock to now, the time since any fixed moment. It never goes backwards.
func (c *Clock) Set(now time.Duration) {
	if old := c.now.Load(); int64(now)-old >= granularity {
		c.now.CompareAndSwap(old, int64(now)) // else another worker has moved it
	}
}

// Now returns the time that was set.
func (c *Clock) Now() time.Duration { return time.Duration(c.now.Load()) }

// life is the used part of an SA's lifetime. It is apart from the SA, since most packets belong to
// young SAs with limits of age only.
type life struct {
	soft, hard Limits
	softAt     int64 // by the Clock, or never
	hardAt     int64
	softState  atomic.Uint32
	// Packets and bytes used, if they are limited. All workers write them.
	packets, bytes atomic.Uint64
}

// never is a time that a Clock does not reach.
const never = math.MaxInt64

// Values of life.softState.
const (
	softAhead = iota
	softReached
	softReported
)

func newLife(c *Config) *life {
	l := &life{soft: c.Lifetime.Soft, hard: c.Lifetime.Hard}
	at := func(age time.Duration) int64 {
		if age == 0 {
			return never
		}
		return int64(c.Clock.Now() + age)
	}
	l.softAt, l.hardAt = at(l.soft.Age), at(l.hard.Age)
	unlimited := func(n *uint64) {
		if *n == 0 {
			*n = math.MaxUint64
		}
	}
	for _, limits := range []*Limits{&l.soft, &l.hard} {
		unlimited(&limits.Packets)
		unlimited(&limits.Bytes)
	}
	return l
}

// SetPreviousUse adds the previous use of the keys, by an earlier run of the router, to the lifetime. No
// worker may have the SA yet.
func (s *SA) SetPreviousUse(u Limits) {
	l := s.life
	for _, at := range []*int64{&l.softAt, &l.hardAt} {
		if *at != never {
			*at -= int64(u.Age)
		}
	}
	s.due.Store(l.firstAt())
	l.packets.Store(u.Packets)
	l.bytes.Store(u.Bytes)
	if u.Packets >= l.soft.Packets || u.Bytes >= l.soft.Bytes {
		l.reachSoft()
	}
	if u.Packets >= l.hard.Packets || u.Bytes >= l.hard.Bytes {
		s.raise(expired)
	}
}

// AddUse adds packets and bytes of the previous SA with the same keys. Workers may be using s.
func (s *SA) AddUse(u Limits) {
	if s.counted {
		s.within(u.Packets, u.Bytes)
	}
}

// counts reports whether there is a limit in packets or bytes.
func (l *life) counts() bool {
	return min(l.soft.Packets, l.soft.Bytes, l.hard.Packets, l.hard.Bytes) != math.MaxUint64
}

// firstAt returns the nearest limit of age.
func (l *life) firstAt() int64 { return min(l.softAt, l.hardAt) }

// withinAge reports whether the hard limit of age is in the future, and records the soft one.
func (s *SA) withinAge() bool {
	due := s.due.Load()
	if due == never { // and there may be no clock
		return true
	}
	now := s.clock.now.Load()
	return now < due || s.aged(now)
}

// UsableUntil returns the time by a clock until which an SA without limits in packets or bytes stays usable, unless it is killed. It
// returns 0 if the SA is not usable, or has another clock.
func (s *SA) UsableUntil(c *Clock) time.Duration {
	due := s.due.Load()
	if s.state.Load() != live || due != never && s.clock != c {
		return 0
	}
	return time.Duration(due)
}

// aged is the slow path of withinAge.
func (s *SA) aged(now int64) bool {
	l := s.life
	if now >= l.softAt {
		l.reachSoft()
		s.due.Store(l.hardAt)
	}
	return now < l.hardAt
}

func (l *life) reachSoft() {
	if l.softState.Load() == softAhead {
		l.softState.CompareAndSwap(softAhead, softReached)
	}
}

// use counts packets and reports whether they are within the hard limits. As in Linux, the packet
// that crosses a limit in bytes passes.
func (l *life) use(packets, bytes uint64) bool {
	p := l.packets.Add(packets)
	b := l.bytes.Add(bytes)
	if p >= l.soft.Packets || b >= l.soft.Bytes {
		l.reachSoft()
	}
	return p <= l.hard.Packets && b-bytes < l.hard.Bytes
}

// SoftExpired reports, once, that a soft limit was reached and the SA should be replaced. The
// control plane polls it.
func (s *SA) SoftExpired() bool {
	s.withinAge() // also when there is no traffic
	return s.life.softState.CompareAndSwap(softReached, softReported)
}

// HardExpired reports whether a hard limit refuses packets.
func (s *SA) HardExpired() bool {
	if !s.withinAge() {
		s.raise(expired)
	}
	return s.state.Load() == expired
}

// within is the slow path of Count, for SAs with a limit.
func (s *SA) within(packets, bytes uint64) bool {
	is := s.life.use(packets, bytes)
	if !is {
		s.raise(expired)
	}
	return is
}

// Limited reports whether the packets or bytes of the SA are limited.
func (s *SA) Limited() bool { return s.counted }

// Count adds decrypted packets of a worker, as Decapsulate does, for engines whose device decrypts.
// Prepare counts outbound packets. It reports false if the hard lifetime refuses them.
func (s *SA) Count(w int, packets, bytes uint64) bool {
	if s.counted && !s.within(packets, bytes) {
		return false
	}
	s.workers[w].Add(packets, bytes)
	return true
}
