package ipsec

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/warproute/warproute/packet"
)

// Bases near known ones, near 0 and around the wrap are not drawn.
func TestBasesKeepTheirDistance(t *testing.T) {
	var n Nonces
	const known = 1 << 60
	n.Avoid(known)
	candidates := []uint64{
		0, 1, NonceSpacing - 1, math.MaxUint64, math.MaxUint64 - NonceSpacing + 2,
		known, known + NonceSpacing - 1, known - NonceSpacing + 1,
		known + NonceSpacing, // the first that may be
		known + NonceSpacing, known + 2*NonceSpacing - 1,
		known - NonceSpacing,
		1 << 63,
	}
	next := func() uint64 { c := candidates[0]; candidates = candidates[1:]; return c }
	for _, want := range []uint64{known + NonceSpacing, known - NonceSpacing, 1 << 63} {
		if got := n.draw(next); got != want || n.Base() != want {
			t.Errorf("%#x is taken, and %#x is in use: want %#x", got, n.Base(), want)
		}
	}
}

// Randomness or time alone makes two starts differ: time, where a snapshot of a virtual machine repeats
// the random bytes; randomness, where the clock is set back.
func TestBasesDependOnRandomnessAndTime(t *testing.T) {
	a, b := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	if mixNonceBase(a, 1) == mixNonceBase(a, 2) {
		t.Error("one random number at two times is one base")
	}
	if mixNonceBase(a, 1) == mixNonceBase(b, 1) {
		t.Error("two random numbers at one time are one base")
	}
	if first, second := randomNonceBase(), randomNonceBase(); first == second {
		t.Error("two bases are the same")
	}
}

// A base drawn while workers have leases is for later numbers: no nonce is used twice, and a returned
// number is used with one base only.
func TestNoncesAreUniqueWhileTheBaseChanges(t *testing.T) {
	var n Nonces
	rnd := rand.New(rand.NewPCG(7, 1))
	c := config(rnd, "aes128gcm16", Tunnel, true)
	c.Nonces = &n
	s := newSA(t, c, 2)
	seen := map[[8]byte]bool{}
	send := func(w, packets int) {
		for range packets {
			p := ipPacket(rnd, true, 17, 40)
			buf := frame(p)
			at, _, e := s.Encapsulate(w, buf, frameRoom, len(p))
			if e != OK {
				t.Fatal(e)
			}
			iv := [8]byte(buf[at+packet.IPv4Len+espLen:])
			if seen[iv] {
				t.Fatalf("nonce %x is used twice", iv)
			}
			seen[iv] = true
		}
	}
	for i := range 50 {
		for w := range 2 {
			for range 5 {
				s.Request(w, 1)
			}
			ReserveRequested([]*SA{s}, w)
		}
		if i%3 == 0 {
			n.Renew()
		}
		send(0, 5)
		send(1, 1+i%5)
		s.Release(1)
	}
	if len(seen) < 300 {
		t.Errorf("%d packets", len(seen))
	}
}
