package ipsec

import (
	"encoding/binary"

	"github.com/warproute/warproute/packet"
)

// Codepoints of ECN (RFC 3168), the lower bits of what was the type of service.
const (
	notECT = iota
	ect1
	ect0
	ce
	drop // not one: what RFC 6040 says of congestion that the inner packet cannot carry
)

// ecnOut is the codepoint of a packet that leaves a tunnel, by that of the inner and
// the outer header it arrived with: RFC 6040 section 4.2, figure 4. On the way in, its
// normal mode, the outer header has the inner one's.
var ecnOut = [4][4]byte{
	notECT: {notECT: notECT, ect0: notECT, ect1: notECT, ce: drop},
	ect0:   {notECT: ect0, ect0: ect0, ect1: ect1, ce: ce},
	ect1:   {notECT: ect1, ect0: ect1, ect1: ect1, ce: ce},
	ce:     {notECT: ce, ect0: ce, ect1: ce, ce: ce},
}

// passECN brings the ECN of the inner packet p, of header h, up to date with the
// outer type of service. It reports false for a packet to be dropped. The inner DSCP
// stays (RFC 4301 section 5.1.2.1). A wrong checksum stays wrong.
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
