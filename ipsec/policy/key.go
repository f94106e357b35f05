package policy

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// key is an address with its first bit at the top; an IPv4 address is the upper 32 bits.
type key struct{ hi, lo uint64 }

func ipv4Key(a uint32) key { return key{hi: uint64(a) << 32} }

func ipv6Key(a *[16]byte) key {
	return key{binary.BigEndian.Uint64(a[:8]), binary.BigEndian.Uint64(a[8:])}
}

// slot returns the number in the stride bits from position.
func (k *key) slot(position, stride uint32) uint32 {
	x := k.hi << (position & 63)
	if position+stride > 64 {
		x = k.from(position)
	}
	return uint32(x >> ((64 - stride) & 63))
}

// from returns the key's bits from position on.
func (k *key) from(position uint32) uint64 {
	if position < 64 {
		return k.hi<<position | k.lo>>(64-position)
	}
	return k.lo << (position - 64)
}

// mask returns a key whose first n bits are ones, the others zeros.
func mask(n uint32) key { return key{^(^uint64(0) >> min(n, 64)), ^(^uint64(0) >> (max(n, 64) - 64))} }

// differs reports whether any of the first n bits of two keys differ.
func (k key) differs(o key, n uint32) bool {
	return (k.hi^o.hi)>>(64-min(n, 64))|(k.lo^o.lo)>>(128-max(n, 64)) != 0
}

// prefix is a prefix in the order of tries.
type prefix struct {
	key
	bits uint32
}

func prefixOf(p netip.Prefix) prefix {
	if p.Addr().Is4() {
		b := p.Addr().As4()
		return prefix{ipv4Key(binary.BigEndian.Uint32(b[:])), uint32(p.Bits())}
	}
	b := p.Addr().As16()
	return prefix{ipv6Key(&b), uint32(p.Bits())}
}

func (p prefix) covers(o prefix) bool { return p.bits <= o.bits && !p.differs(o.key, p.bits) }

// compare orders a prefix before those that it covers.
func (p prefix) compare(o prefix) int {
	less := p.hi < o.hi || p.hi == o.hi && (p.lo < o.lo || p.lo == o.lo && p.bits < o.bits)
	switch {
	case p == o:
		return 0
	case less:
		return -1
	}
	return 1
}

// common returns the length of the common prefix of two keys in bits.
func (k key) common(o key) uint32 {
	if x := k.hi ^ o.hi; x != 0 {
		return uint32(bits.LeadingZeros64(x))
	}
	return 64 + uint32(bits.LeadingZeros64(k.lo^o.lo))
}
