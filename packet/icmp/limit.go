package icmp

import (
	"encoding/binary"
	"hash/maphash"
	"time"

	"github.com/warproute/warproute/packet"
)

// Rate is the rate of a token bucket: Burst at once, and PerSecond in the long run. A zero rate passes
// nothing.
type Rate struct{ PerSecond, Burst int }

// Limits are the rates of a Limiter.
type Limits struct {
	Global Rate // of path MTU errors, and separately of all others
	Source Rate // to one IPv4 address or IPv6 /64 of a VRF, path MTU errors excluded
}

// DefaultLimits allow in all the rate of Linux (icmp_msgs_per_sec) with a larger burst, and per source ten
// times Linux's (icmp_ratelimit), so that several users of mtr behind one address are not limited.
var DefaultLimits = Limits{Global: Rate{1000, 100}, Source: Rate{10, 10}}

// sourceBuckets is the number of buckets, which sources share by hash. The hash has a random seed, so
// that nobody can choose a victim's bucket.
const sourceBuckets = 4096

// Limiter limits a router's errors (RFC 1812 section 4.3.2.8, RFC 4443 section 2.4(f)). It has a fixed
// size, and is for one goroutine.
//
// Path MTU errors have a global bucket of their own and are not limited per source: without them
// connections stall, and probes must not starve them (Linux exempts them, too).
type Limiter struct {
	global, source interval
	pathMTU, other bucket
	sources        [sourceBuckets]bucket
	seed           maphash.Seed
}

// NewLimiter returns a limiter with full buckets.
func NewLimiter(l Limits) *Limiter {
	return &Limiter{global: l.Global.interval(), source: l.Source.interval(), seed: maphash.MakeSeed()}
}

// Allow reports whether an error about a packet of a VRF may be sent now, and counts it if so. The packet
// starts with its IP header; now is the time since an arbitrary start, and never decreases. Equal sources in
// different VRFs are different hosts (as in Linux's inet_peer).
func (l *Limiter) Allow(now time.Duration, vrf uint16, offending []byte, c Cause) bool {
	if c == TooBig {
		if !l.pathMTU.has(now, l.global) {
			return false
		}
		l.pathMTU.take(now, l.global)
		return true
	}
	unit := source(offending)
	if unit == nil {
		return false
	}
	var key [2 + 8]byte
	binary.NativeEndian.PutUint16(key[:], vrf)
	from := &l.sources[maphash.Bytes(l.seed, key[:2+copy(key[2:], unit)])%sourceBuckets]
	if !from.has(now, l.source) || !l.other.has(now, l.global) {
		return false
	}
	from.take(now, l.source)
	l.other.take(now, l.global)
	return true
}

// source returns the unit of limits per source: the IPv4 source, or the /64 of the IPv6 source. It is nil
// for a packet without a whole header.
func source(p []byte) []byte {
	switch {
	case len(p) >= packet.IPv4Len && p[0]>>4 == 4:
		return p[12:16]
	case len(p) >= packet.IPv6Len && p[0]>>4 == 6:
		return p[8:16]
	}
	return nil
}

// interval is a Rate in the units of buckets.
type interval struct {
	token  time.Duration // time per token; 0: never
	spread time.Duration // time for all tokens of a burst but the first
}

func (r Rate) interval() interval {
	if r.PerSecond <= 0 {
		return interval{}
	}
	token := time.Second / time.Duration(r.PerSecond)
	token = max(token, 1)
	return interval{token, token * time.Duration(max(r.Burst, 1)-1)}
}

// bucket is a token bucket in one word: the time at which it will be full. Nothing needs refilling, and
// the zero bucket is full.
type bucket time.Duration

func (b bucket) has(now time.Duration, i interval) bool {
	return i.token > 0 && time.Duration(b)-now <= i.spread
}

func (b *bucket) take(now time.Duration, i interval) {
	*b = bucket(max(time.Duration(*b), now) + i.token)
}
