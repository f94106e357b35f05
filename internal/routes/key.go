package routes

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"net/netip"
)

// key is an address of either family as a number, with the first bit at the top of hi. An IPv4 address
// is the upper half of hi; the rest is ignored.
type key struct{ hi, lo uint64 }

func randomKey(rnd *rand.Rand) key { return key{rnd.Uint64(), rnd.Uint64()} }

func keyOf(a netip.Addr) key {
	if a.Is4() {
		b := a.As4()
		return key{hi: uint64(binary.BigEndian.Uint32(b[:])) << 32}
	}
	b := a.As16()
	return key{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// join returns the first n bits of k followed by the bits of rest.
func (k key) join(rest key, n int) key {
	hi, lo := ^uint64(0)<<max(0, 64-n), ^uint64(0)<<min(64, 128-n)
	return key{k.hi&hi | rest.hi&^hi, k.lo&lo | rest.lo&^lo}
}

// next returns the start of the prefix of length n after the one at k. It is not ok after the last.
func (k key) next(n int) (_ key, ok bool) {
	one := key{hi: 1 << 63}
	if n <= 64 {
		one.hi >>= n - 1
	} else {
		one = key{lo: 1 << (128 - n)}
	}
	lo, carry := bits.Add64(k.lo, one.lo, 0)
	hi, carry := bits.Add64(k.hi, one.hi, carry)
	return key{hi, lo}, carry == 0
}

func (k key) addr(f Family) netip.Addr {
	if f == IPv4 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(k.hi>>32))
		return netip.AddrFrom4(b)
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], k.hi)
	binary.BigEndian.PutUint64(b[8:], k.lo)
	return netip.AddrFrom16(b)
}

func (k key) prefix(f Family, n int) netip.Prefix {
	return netip.PrefixFrom(k.join(key{}, n).addr(f), n)
}

// unicast reports whether k is in the address space of the Internet's routes.
func (k key) unicast(f Family) bool {
	if f == IPv6 {
		return k.hi>>61 == 1 // 2000::/3
	}
	first := k.hi >> 56
	return first != 0 && first != 10 && first != 127 && first < 224
}

// randomUnicast returns a random address for which unicast holds.
func randomUnicast(f Family, rnd *rand.Rand) key {
	for {
		k := randomKey(rnd)
		if f == IPv6 {
			k.hi = k.hi>>3 | 1<<61
		}
		if k.unicast(f) {
			return k
		}
	}
}
