package packet

// Trim returns a valid IP packet without the link padding behind it.
func Trim(p []byte) []byte {
	if p[0]>>4 == 4 {
		return p[:(*IPv4)(p).TotalLen()]
	}
	return p[:IPv6Len+(*IPv6)(p).PayloadLen()]
}

// Complete completes the L4 checksum of a valid IP packet, as CompleteIPv4 and CompleteIPv6 do, and reports
// whether it was incomplete. p is the whole packet.
func Complete(p []byte) bool {
	if p[0]>>4 == 4 {
		return p[0] == 0x45 && CompleteIPv4(p)
	}
	l4, ok := FindL4(p)
	return ok && !l4.Fragment && CompleteIPv6(p, l4.Proto, l4.Offset)
}
