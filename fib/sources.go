package fib

import "sync/atomic"

// ReversePath says from which sources a port takes packets of a family (RFC 3704, RFC 1812
// 5.3.8).
type ReversePath uint8

const (
	AnySource    ReversePath = iota
	LooseSource              // those that a route leads to
	StrictSource             // those that a route leads to by the port
)

// Sources says it for both families. As the word of a port:
//
//	 31           16 15     8 7      0
//	+---------------+--------+--------+
//	| 0             | IPv6   | IPv4   |
//	+---------------+--------+--------+
type Sources struct{ IPv4, IPv6 ReversePath }

// SetSources says from which sources a port takes packets, at first any.
func (f *FIB) SetSources(port uint16, s Sources) {
	was, word := f.Sources(port), uint32(s.IPv4)|uint32(s.IPv6)<<8
	if was == s {
		return
	}
	atomic.StoreUint32(&f.reversePaths[port], word)
	f.followers.word(ReversePaths, uint32(port), uint64(word))
	if was == (Sources{}) {
		f.verifying.Add(1)
	} else if s == (Sources{}) {
		f.verifying.Add(-1)
	}
}

// Sources returns from which sources a port takes packets.
func (f *FIB) Sources(port uint16) Sources {
	word := atomic.LoadUint32(&f.reversePaths[port])
	return Sources{ReversePath(word), ReversePath(word >> 8)}
}

// Verifies reports whether there is a port that does not take packets from any source: as
// long as there is none, nobody need look.
func (f *FIB) Verifies() bool { return f.verifying.Load() > 0 }

// Takes reports whether the next hop to a packet's source will do for the port that received
// the packet.
func (f *FIB) Takes(p ReversePath, port uint16, source ID) bool {
	hop := f.NextHop(source)
	switch {
	case p == AnySource:
		return true
	case hop.Kind() == KindForward:
		return p == LooseSource || f.LeadsBy(hop, port)
	}
	return p == LooseSource && hop.Kind() == KindNoPort // by an interface of Linux's
}
