package packet

import "encoding/binary"

// ClampMSS lowers the maximum segment size option of a TCP SYN segment to mss and updates the checksum
// (RFC 9293 section 3.7.1, RFC 1624). tcp begins with the TCP header. It reports whether the option was
// larger.
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
			return false // malformed option list
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
			} else { // misaligned: spans two words of the checksum
				sum = UpdateChecksum(sum, old<<8|old>>8, mss<<8|mss>>8)
			}
			binary.BigEndian.PutUint16(tcp[16:], sum)
			return true
		}
		at += int(options[at+1])
	}
	return false
}
