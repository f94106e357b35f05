package packet

import (
	"bytes"
	"testing"
)

// v6 is an IPv6 packet with the given first next header and what follows.
func v6(next Protocol, rest ...[]byte) []byte {
	p := make([]byte, IPv6Len)
	p[0], p[6], p[7] = 0x60, byte(next), 64
	body := bytes.Join(rest, nil)
	p[4], p[5] = byte(len(body)>>8), byte(len(body))
	return append(p, body...)
}

// ext is an extension header of 8 bytes, or longer by units of 8.
func ext(next Protocol, units int, fields ...byte) []byte {
	b := make([]byte, 8+8*units)
	b[0], b[1] = byte(next), byte(units)
	copy(b[2:], fields)
	return b
}

func frag(next Protocol, offset uint16, more byte) []byte {
	return []byte{byte(next), 0, byte(offset >> 5), byte(offset<<3) | more, 0, 0, 0, 1}
}

func TestFindL4(t *testing.T) {
	udp := make([]byte, 8)
	long := [][]byte{}
	for range maxExtensionHeaders {
		long = append(long, ext(DestOptions, 0))
	}
	long[len(long)-1][0] = byte(UDP)
	for _, c := range []struct {
		name string
		p    []byte
		want L4
		ok   bool
	}{
		{"none", v6(UDP, udp), L4{Proto: UDP, Offset: 40}, true},
		{"nothing follows", v6(NoNext), L4{Proto: NoNext, Offset: 40}, true},
		{"hop-by-hop", v6(HopByHop, ext(UDP, 0), udp), L4{Proto: UDP, Offset: 48}, true},
		{"hop-by-hop of 24 bytes", v6(HopByHop, ext(UDP, 2), udp), L4{Proto: UDP, Offset: 64}, true},
		{"three in a row", v6(HopByHop, ext(DestOptions, 0), ext(Routing, 0, 2, 1), ext(TCP, 1), udp), L4{Proto: TCP, Offset: 72}, true},
		{"type 0 routing header with segments left", v6(Routing, ext(UDP, 2, 0, 1), udp), L4{Proto: UDP, Offset: 64, Routing0: true}, true},
		{"type 0 routing header, spent", v6(Routing, ext(UDP, 2, 0, 0), udp), L4{Proto: UDP, Offset: 64}, true},
		{"first fragment", v6(Fragment, frag(UDP, 0, 1), udp), L4{Proto: UDP, Offset: 48, Fragment: true}, true},
		{"later fragment: its payload is not a header", v6(Fragment, frag(HopByHop, 100, 1), []byte{59, 255}), L4{Proto: HopByHop, Offset: 48, Fragment: true, Later: true}, true},
		{"authentication header", v6(AH, append([]byte{byte(UDP), 4}, make([]byte, 22)...), udp), L4{Proto: UDP, Offset: 64}, true},
		{"as many as are followed", v6(DestOptions, append(long[:maxExtensionHeaders:maxExtensionHeaders], udp)...), L4{}, false},
		{"one fewer", v6(DestOptions, append(long[1:maxExtensionHeaders:maxExtensionHeaders], udp)...), L4{}, false},
		{"header beyond the end", v6(HopByHop, ext(UDP, 9)[:16]), L4{}, false},
		{"header cut", v6(HopByHop, []byte{17}), L4{}, false},
		{"fragment header cut", v6(Fragment, []byte{17, 0, 0}), L4{}, false},
		{"ends where a header should start", v6(DestOptions), L4{}, false},
	} {
		got, ok := FindL4(c.p)
		if c.name == "as many as are followed" || c.name == "one fewer" {
			c.ok, c.want = true, L4{Proto: UDP, Offset: len(c.p) - 8}
		}
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%s: got %+v %v, want %+v %v", c.name, got, ok, c.want, c.ok)
		}
	}
	many := [][]byte{}
	for range maxExtensionHeaders + 1 {
		many = append(many, ext(DestOptions, 0))
	}
	if _, ok := FindL4(v6(DestOptions, append(many, udp)...)); ok {
		t.Error("a chain of nine headers is followed")
	}
}

func FuzzFindL4(f *testing.F) {
	f.Add(v6(HopByHop, ext(Fragment, 0), frag(UDP, 0, 0)))
	f.Fuzz(func(t *testing.T, p []byte) {
		if len(p) < IPv6Len {
			return
		}
		if l4, ok := FindL4(p); ok && (l4.Offset < IPv6Len || l4.Offset > len(p)) {
			t.Errorf("offset %d outside of the packet's %d bytes", l4.Offset, len(p))
		}
	})
}
