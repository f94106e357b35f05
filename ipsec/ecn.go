package ipsec

import (
	"encoding/binary"

	"github.com/warproute/warproute/packet"
)

// Codepoints of ECN (RFC 3168), the lower two bits of the traffic class.
const (
	notECT = iota
	ect1
	ect0
	ce
	drop // not a codepoint: RFC 6040 drops congestion that the inner packet cannot carry
)

// ecnOut is the ECN codepoint of a decapsulated packet, by inner and outer codepoint: RFC 6040
// section 4.2, figure 4. Encapsulation copies the inner codepoint (normal mode).
var ecnOut = [4][4]byte{
	notECT: {notECT: notECT, ect0: notECT, ect1: notECT, ce: drop},
	ect0:   {notECT: ect0, ect0: ect0, ect1: ect1, ce: ce},
	ect1:   {notECT: ect1, ect0: ect1, ect1: ect1, ce: ce},
	ce:     {notECT: ce, ect0: ce, ect1: ce, ce: ce},
}

// passECN applies the outer traffic class to the ECN bits of the inner packet p, with header h. It
// reports false if the packet must be dropped. The inner DSCP stays (RFC 4301 section 5.1.2.1). A
// wrong checksum stays wrong.
func passECN(p []byte, h *header, outerTOS byte) bool {
	was := h.tos & 3
	now := ecnOut[was][outerTOS&3]
	switch {
	case now == drop:
		return false
	case now == was:
	case h.v4:
		before := binary.BigEndian.Uint16(p)
		p[1] = h.tos&^3 | now
		sum := packet.UpdateChecksum(binary.BigEndian.Uint16(p[10:]), before, binary.BigEndian.Uint16(p))
		binary.BigEndian.PutUint16(p[10:], sum)
	default:
		p[1] = p[1]&^0x30 | now<<4
	}
	return true
}
