package packet

import "encoding/binary"

// Flow hashes select a path of a multipath route. Packets of one flow have the same hash; fragments
// are hashed on addresses alone. The mixing function is that of MurmurHash3 (public domain), in 32-bit
// steps that a GPU computes as well.

func mix(h, k uint32) uint32 {
	k *= 0xcc9e2d51
	k = k<<15 | k>>17
	k *= 0x1b873593
	h ^= k
	h = h<<13 | h>>19
	return h*5 + 0xe6546b64
}

func finish(h uint32) uint32 {
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	return h ^ h>>16
}

// ports returns both ports of protocols that start with them, else 0.
func ports(proto Protocol, l4 []byte) uint32 {
	const dccp, sctp, udplite = 33, 132, 136
	switch proto {
	case TCP, UDP, dccp, sctp, udplite:
		if len(l4) >= 4 {
			return binary.BigEndian.Uint32(l4)
		}
	}
	return 0
}

// FlowHashIPv4 hashes the flow of the IPv4 packet p, which has no options.
func FlowHashIPv4(p []byte, seed uint32) uint32 {
	h := (*IPv4)(p)
	hash := mix(mix(seed, h.Src()), h.Dst())
	if !h.Fragmented() {
		hash = mix(hash, ports(h.Protocol(), p[IPv4Len:]))
		hash = mix(hash, uint32(h.Protocol()))
	}
	return finish(hash)
}

// FlowHashIPv6 hashes the flow of the IPv6 packet p.
func FlowHashIPv6(p []byte, l4 L4, seed uint32) uint32 {
	hash := seed
	for at := 8; at < IPv6Len; at += 4 {
		hash = mix(hash, binary.BigEndian.Uint32(p[at:]))
	}
	if !l4.Fragment {
		hash = mix(hash, ports(l4.Proto, p[l4.Offset:]))
		hash = mix(hash, uint32(l4.Proto))
	}
	return finish(hash)
}
