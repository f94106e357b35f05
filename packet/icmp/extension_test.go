package icmp

import (
	"bytes"
	"testing"
)

// Errors carry no extensions, and no receiver that goes by RFC 4884 takes a part of what is
// quoted for some: the length attribute, which says where extensions begin, is 0, and a
// message ends with the quote.
func TestErrorsHaveNoExtensions(t *testing.T) {
	// Where the attribute is, by type (RFC 4884 sections 4.1 to 4.5). Of other types it is none.
	attribute := map[bool]map[byte]int{false: {3: 5, 11: 5, 12: 5}, true: {1: 4, 3: 4}}
	buf := make([]byte, MaxIPv6)
	for c := TimeExceeded; c < numCauses; c++ {
		for _, payload := range []int{8, 100, 200, 600, 1400} {
			for _, ipv6 := range []bool{false, true} {
				offending, src, header, most := offending4(payload), router4, 20, MaxIPv4
				if ipv6 {
					offending, src, header, most = offending6(payload), router6, 40, MaxIPv6
				}
				info := uint32(0)
				switch c {
				case TooBig:
					info = 70000 // which has a bit where the attribute would be
				case ParameterProblem:
					info = 6
				}
				n := Build(buf, offending, Error{Cause: c, Info: info}, src, 1)
				if n == 0 {
					t.Fatalf("%v about %d bytes: no error", c, len(offending))
				}
				m := buf[header:n]
				if at, is := attribute[ipv6][m[0]]; is && m[at] != 0 {
					t.Errorf("%v, IPv6 %v: the quote is said to have %d words", c, ipv6, m[at])
				}
				if want := offending[:min(len(offending), most-header-8)]; !bytes.Equal(m[8:], want) {
					t.Errorf("%v, IPv6 %v, about %d bytes: %d bytes follow the header, want %d of the packet", c, ipv6, len(offending), len(m)-8, len(want))
				}
			}
		}
	}
}
