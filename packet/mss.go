package packet

import "encoding/binary"

// ClampMSS lowers the maximum segment size that a TCP segment announces to mss, and
// mends the checksum by what changed (RFC 9293 3.7.1, RFC 1624). Only segments that
// open a connection announce one. tcp begins with the header; it reports whether there
// was something to lower.
func ClampMSS(tcp []byte, mss uint16) bool {
	const headerLen, syn, end, nop, kind, length = 20, 0x02, 0, 1, 2, 4
	if len(tcp) < headerLen || tcp[13]&syn == 0 {
		return false
	}
	options := tcp[headerLen:max(headerLen, min(int(tcp[12]>>4)*4, len(tcp)))]
	for at := 0; at < len(options) && options[at] != end; {
		switch {
		case options[at] == nop:
			at++
			continue
		case at+1 >= len(options) || options[at+1] < 2 || at+int(options[at+1]) > len(options):
			return false // not an option list
		case options[at] == kind && options[at+1] == length:
			value := options[at+2 : at+4]
			old := binary.BigEndian.Uint16(value)
			if old <= mss {
				return false
			}
			binary.BigEndian.PutUint16(value, mss)
			sum := binary.BigEndian.Uint16(tcp[16:])
			if at%2 == 0 {
				sum = UpdateChecksum(sum, old, mss)
			} else { // across two of the words that the checksum adds up
				sum = UpdateChecksum(sum, old<<8|old>>8, mss<<8|mss>>8)
			}
			binary.BigEndian.PutUint16(tcp[16:], sum)
			return true
		}
		at += int(options[at+1])
	}
	return false
}
