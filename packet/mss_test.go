package packet

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// segment is a SYN with options, and a checksum as if the pseudo-header were zero.
func segment(flags byte, options ...byte) []byte {
	for len(options)%4 != 0 {
		options = append(options, 0)
	}
	p := append(make([]byte, 20), options...)
	p[12], p[13] = byte(len(p)/4)<<4, flags
	binary.BigEndian.PutUint16(p[16:], Checksum(p))
	return p
}

func TestClampMSS(t *testing.T) {
	for _, c := range []struct {
		name string
		p    []byte
		want uint16 // 0: untouched
		at   int
	}{
		{"SYN", segment(0x02, 2, 4, 5, 0xb4), 1300, 22},
		{"SYN and ACK", segment(0x12, 2, 4, 5, 0xb4), 1300, 22},
		{"behind others", segment(0x02, 1, 1, 3, 3, 7, 1, 2, 4, 5, 0xb4), 1300, 28},
		{"askew", segment(0x02, 1, 2, 4, 5, 0xb4), 1300, 23},
		{"small already", segment(0x02, 2, 4, 4, 0), 0, 0},
		{"no SYN", segment(0x10, 2, 4, 5, 0xb4), 0, 0},
		{"no options", segment(0x02), 0, 0},
		{"behind the end", segment(0x02, 0, 2, 4, 5, 0xb4), 0, 0},
		{"of a wrong length", segment(0x02, 2, 3, 5), 0, 0},
		{"cut", segment(0x02, 1, 1, 2, 4), 0, 0},
		{"an option of length 0", segment(0x02, 3, 0, 2, 4, 5, 0xb4), 0, 0},
		{"header cut", segment(0x02, 2, 4, 5, 0xb4)[:19], 0, 0},
	} {
		before := bytes.Clone(c.p)
		if got := ClampMSS(c.p, 1300); got != (c.want != 0) {
			t.Errorf("%s: %v", c.name, got)
		}
		if c.want == 0 && !bytes.Equal(c.p, before) {
			t.Errorf("%s: changed", c.name)
		}
		if c.want != 0 && (binary.BigEndian.Uint16(c.p[c.at:]) != c.want || Sum(c.p) != 0xffff) {
			t.Errorf("%s: % x, sum %#x", c.name, c.p, Sum(c.p))
		}
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 100_000 { // whatever is there, it stays within
		p := make([]byte, rnd.IntN(64))
		for i := range p {
			p[i] = byte(rnd.Uint32N(6))
		}
		if len(p) > 13 {
			p[12], p[13] = byte(rnd.Uint32()), 2
		}
		ClampMSS(p, uint16(rnd.Uint32()))
	}
}
