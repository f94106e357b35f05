package icmp

import (
	"hash/maphash"
	"time"

	"github.com/warproute/warproute/packet"
)

// Rate is what a token bucket lets pass: Burst at once, and PerSecond in the long
// run. A rate of 0 lets nothing pass.
type Rate struct{ PerSecond, Burst int }

// Limits are the rates of a Limiter.
type Limits struct {
	Global Rate // of path MTU errors, and again of all others together
	Source Rate // of errors to one IPv4 address or IPv6 /64, path MTU errors excepted
}

// DefaultLimits allow all together what Linux does (icmp_msgs_per_sec), with room
// for more at once, and a source ten times as much (icmp_ratelimit): a few people
// behind one address who watch a path with mtr are no flood.
var DefaultLimits = Limits{Global: Rate{1000, 100}, Source: Rate{10, 10}}

// sourceBuckets is how many buckets sources share by hash. The hash is seeded at
// random, so that nobody can choose whom to share with.
const sourceBuckets = 4096

// Limiter limits the errors that a router sends (RFC 1812 4.3.2.8, RFC 4443
// 2.4(f)). It has a fixed size, and belongs to one goroutine.
//
// Path MTU errors have a global bucket of their own and are not counted by source:
// a server that cannot hear of all its clients' paths in time stalls them, and
// probes must not be able to starve that (Linux exempts them, too).
type Limiter struct {
	global, source interval
	pathMTU, other bucket
	sources        [sourceBuckets]bucket
	seed           maphash.Seed
}

// NewLimiter returns a limiter whose buckets are full.
func NewLimiter(l Limits) *Limiter {
	return &Limiter{global: l.Global.interval(), source: l.Source.interval(), seed: maphash.MakeSeed()}
}

// Allow reports whether an error about a packet may be sent now, and counts it if
// so. The packet starts with its IP header; now is the time since a start before
// any call's, and does not run backwards.
func (l *Limiter) Allow(now time.Duration, offending []byte, c Cause) bool {
	if c == TooBig {
		if !l.pathMTU.has(now, l.global) {
			return false
		}
		l.pathMTU.take(now, l.global)
		return true
	}
	key := source(offending)
	if key == nil {
		return false
	}
	from := &l.sources[maphash.Bytes(l.seed, key)%sourceBuckets]
	if !from.has(now, l.source) || !l.other.has(now, l.global) {
		return false
	}
	from.take(now, l.source)
	l.other.take(now, l.global)
	return true
}

// source returns what errors are counted by: the IPv4 source, or the subnet of
// the IPv6 source, within which a host may take any address. It is nil when the
// packet has no whole header.
func source(p []byte) []byte {
	switch {
	case len(p) >= packet.IPv4Len && p[0]>>4 == 4:
		return p[12:16]
	case len(p) >= packet.IPv6Len && p[0]>>4 == 6:
		return p[8:16]
	}
	return nil
}

// interval is a rate as buckets use it.
type interval struct {
	token  time.Duration // in which one is filled in; 0: never
	spread time.Duration // of a burst's tokens but the first
}

func (r Rate) interval() interval {
	if r.PerSecond <= 0 {
		return interval{}
	}
	token := time.Second / time.Duration(r.PerSecond)
	token = max(token, 1)
	return interval{token, token * time.Duration(max(r.Burst, 1)-1)}
}

// bucket is a token bucket in one word: the time at which it will be full again.
// So there is nothing to refill, and the zero bucket is full.
type bucket time.Duration

func (b bucket) has(now time.Duration, i interval) bool {
	return i.token > 0 && time.Duration(b)-now <= i.spread
}

func (b *bucket) take(now time.Duration, i interval) {
	*b = bucket(max(time.Duration(*b), now) + i.token)
}
