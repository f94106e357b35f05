package ipsec

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/warproute/warproute/packet"
)

// Fields that packets need are in the intended cache lines, which no other SA shares.
func TestSALayoutInCacheLines(t *testing.T) {
	const line = linePair / 2
	var s SA
	var w worker
	for _, field := range []struct {
		what    string
		at, end uintptr // of the fields
		lines   uintptr // where their lines begin
		n       uintptr // of these
	}{
		{"what packets read", unsafe.Offsetof(s.state), unsafe.Offsetof(s.outerHeader) + packet.IPv4Len, 0, 2},
		{"what workers need to take numbers of outbound ones", unsafe.Offsetof(s.sequence), unsafe.Offsetof(s.nonces) + 8, contended + line, 1},
		{"what they do of inbound ones", unsafe.Offsetof(s.replay), unsafe.Offsetof(s.mainCounts) + unsafe.Sizeof(s.mainCounts), contended, 1},
		{"what one worker writes", unsafe.Offsetof(w.packets), unsafe.Offsetof(w.reserved) + unsafe.Sizeof(w.reserved), 0, 1},
	} {
		if field.at < field.lines || field.end > field.lines+field.n*line {
			t.Errorf("%s is at %d to %d, want it within the %d lines from %d", field.what, field.at, field.end, field.n, field.lines)
		}
	}
	if a, b := unsafe.Sizeof(s), unsafe.Sizeof(w); a != contended+linePair || b != linePair {
		t.Errorf("an association has %d bytes, and what a worker writes %d: want %d and %d", a, b, contended+linePair, linePair)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for n := 1; n <= 64; n++ {
		s := newSA(t, config(rnd, "aes128gcm16", Tunnel, true), n)
		if a, b := uintptr(unsafe.Pointer(s)), uintptr(unsafe.Pointer(&s.workers[0])); a%linePair != 0 || b%linePair != 0 {
			t.Errorf("with %d workers the association is at %#x, and what they write at %#x", n, a, b)
		}
	}
}
