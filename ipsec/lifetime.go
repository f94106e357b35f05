package ipsec

import (
	"math"
	"sync/atomic"
	"time"
)

// Clock is a coarse time that workers set once a batch, so that no packet reads a
// real one. The zero Clock stands at 0.
type Clock struct{ now atomic.Int64 }

// granularity is how far a Clock moves at least, so that workers that set the same
// one seldom write to it.
const granularity = int64(10 * time.Millisecond)

// Set moves the clock on to now, since any fixed moment. It does not go back.
func (c *Clock) Set(now time.Duration) {
	if old := c.now.Load(); int64(now)-old >= granularity {
		c.now.CompareAndSwap(old, int64(now)) // else another worker has moved it
	}
}

// Now returns the time that was set.
func (c *Clock) Now() time.Duration { return time.Duration(c.now.Load()) }

// life is what an association has used of its lifetime.
type life struct {
	counted    bool // there is a limit in packets or bytes
	soft, hard Limits
	softAt     int64 // by the Clock; never: MaxInt64
	hardAt     int64
	softState  atomic.Uint32
	// Associations without such limits leave these at 0, as all workers write them.
	packets, bytes atomic.Uint64
}

// Values of life.softState.
const (
	softAhead = iota
	softReached
	softReported
)

func (l *life) start(c *Config) {
	l.soft, l.hard = c.Lifetime.Soft, c.Lifetime.Hard
	l.counted = l.soft.Packets|l.soft.Bytes|l.hard.Packets|l.hard.Bytes != 0
	at := func(age time.Duration) int64 {
		if age == 0 {
			return math.MaxInt64
		}
		return int64(c.Clock.Now() - c.Age + age)
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
}

// young reports whether the hard limit of age is ahead, and notes the soft one.
func (l *life) young(c *Clock) bool {
	if l.softAt&l.hardAt == math.MaxInt64 { // neither
		return true
	}
	now := c.now.Load()
	if now >= l.softAt {
		l.reachSoft()
	}
	return now < l.hardAt
}

func (l *life) reachSoft() {
	if l.softState.Load() == softAhead {
		l.softState.CompareAndSwap(softAhead, softReached)
	}
}

// use counts packets and reports whether they are within the hard limits. As in
// Linux, the packet that crosses a limit in bytes still passes.
func (l *life) use(packets, bytes uint64) bool {
	if !l.counted {
		return true
	}
	p := l.packets.Add(packets)
	b := l.bytes.Add(bytes)
	if p >= l.soft.Packets || b >= l.soft.Bytes {
		l.reachSoft()
	}
	return p <= l.hard.Packets && b-bytes < l.hard.Bytes
}

// SoftExpired reports, once, that a soft limit was reached: time to replace the
// association. The control plane polls it.
func (s *SA) SoftExpired() bool {
	s.life.young(s.c.Clock) // also when there is no traffic
	return s.life.softState.CompareAndSwap(softReached, softReported)
}

// HardExpired reports whether packets are refused because of a hard limit.
func (s *SA) HardExpired() bool {
	if !s.life.young(s.c.Clock) {
		s.raise(expired)
	}
	return s.state.Load() == expired
}

// Count adds packets of a worker, as Encapsulate and Decapsulate do; engines that have a
// device do the rest call it. It reports false when the hard lifetime does not permit them.
// Between Expect and Release they may not show in Stats yet.
func (s *SA) Count(w int, packets, bytes uint64) bool {
	if !s.life.use(packets, bytes) {
		s.raise(expired)
		return false
	}
	mine := &s.workers[w]
	if l := &mine.lease; l.open {
		l.packets, l.bytes = l.packets+packets, l.bytes+bytes
		return true
	}
	add(&mine.packets, packets)
	add(&mine.bytes, bytes)
	return true
}
