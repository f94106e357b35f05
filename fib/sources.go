package fib

import "sync/atomic"

// ReversePath is the reverse path check of a port for one family (RFC 3704, RFC 1812 5.3.8).
type ReversePath uint8

const (
	AnySource    ReversePath = iota // no check
	LooseSource                     // a route to the source must exist
	StrictSource                    // a route to the source must lead over the port
)

// Sources is the reverse path check of a port for both families. Its word:
//
//	 31           16 15     8 7      0
//	+---------------+--------+--------+
//	| 0             | IPv6   | IPv4   |
//	+---------------+--------+--------+
type Sources struct{ IPv4, IPv6 ReversePath }

// SetSources sets the reverse path check of a port, AnySource by default.
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

// Sources returns the reverse path check of a port.
func (f *FIB) Sources(port uint16) Sources {
	word := atomic.LoadUint32(&f.reversePaths[port])
	return Sources{ReversePath(word), ReversePath(word >> 8)}
}

// Verifies reports whether any port has a reverse path check.
func (f *FIB) Verifies() bool { return f.verifying.Load() > 0 }

// Takes reports whether a packet passes the reverse path check of its ingress port, given the
// next hop of its source.
func (f *FIB) Takes(p ReversePath, port uint16, source ID) bool {
	hop := f.NextHop(source)
	switch {
	case p == AnySource:
		return true
	case hop.Kind() == KindForward:
		return p == LooseSource || f.LeadsBy(hop, port)
	}
	return p == LooseSource && hop.Kind() == KindNoPort // by another interface of the host
}
