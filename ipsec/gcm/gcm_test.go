package gcm

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

// block returns up to 16 bytes as a Block.
func block(b []byte) Block {
	var all [16]byte
	copy(all[:], b)
	return Block{binary.LittleEndian.Uint64(all[:]), binary.LittleEndian.Uint64(all[8:])}
}

// first returns the first counter block of a nonce.
func first(nonce []byte) Block {
	return First(binary.LittleEndian.Uint32(nonce), binary.LittleEndian.Uint64(nonce[4:]))
}

func random(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// here reports whether the processor has the instructions; without them NewKey must fail.
func here(t *testing.T) bool {
	t.Helper()
	if Available() {
		return true
	}
	t.Log("this processor lacks the instructions: packets are for crypto/cipher here")
	if _, err := NewKey(make([]byte, 16)); err == nil || !strings.Contains(err.Error(), "VAES") {
		t.Errorf("a key nevertheless, or no reason why not: %v", err)
	}
	return false
}

// Seal and Open agree with crypto/cipher for keys, texts and alignments of every length, and write
// nothing else.
func TestAgreesWithTheLibrary(t *testing.T) {
	if !here(t) {
		return
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	lengths := []int{1408, 1412, 1500, 9000, 65535}
	for n := range 600 {
		lengths = append(lengths, n)
	}
	for _, keyLen := range []int{16, 24, 32} {
		for _, n := range lengths {
			key, nonce, aad, text := random(rnd, keyLen), random(rnd, NonceLen), random(rnd, rnd.IntN(MaxAAD+1)), random(rnd, n)
			b, _ := aes.NewCipher(key)
			library, _ := cipher.NewGCM(b)
			want := library.Seal(nil, nonce, text, aad)
			k, err := NewKey(key)
			require.NoError(t, err)
			const beside = 64
			buf := random(rnd, beside+16+n+beside)
			at := beside + rnd.IntN(16)
			before := bytes.Clone(buf)
			p := buf[at : at+n]
			copy(p, text)
			copy(before[at:], want[:n])
			var tag [TagLen]byte
			k.Seal(p, &tag, first(nonce), block(aad), len(aad))
			if !bytes.Equal(buf, before) || !bytes.Equal(tag[:], want[n:]) {
				t.Fatalf("key of %d bytes, text of %d, additional %d: sealed\n %x %x, want\n %x", keyLen, n, len(aad), buf[at:at+n], tag, want)
			}
			copy(before[at:], text)
			if !k.Open(p, &tag, first(nonce), block(aad), len(aad)) || !bytes.Equal(buf, before) {
				t.Fatalf("key of %d bytes, text of %d, additional %d: not opened", keyLen, n, len(aad))
			}
		}
	}
}

// Nothing is read or written behind a text, even at the end of mapped memory.
func TestStaysWithinThePage(t *testing.T) {
	if !here(t) {
		return
	}
	page := os.Getpagesize()
	mem, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	defer unix.Munmap(mem)
	require.NoError(t, unix.Mprotect(mem[page:], unix.PROT_NONE))
	debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(false)
	k, _ := NewKey(make([]byte, 32))
	var tag [TagLen]byte
	for n := range 600 {
		p := mem[page-n : page]
		k.Seal(p, &tag, Block{}, Block{}, 0)
		if !k.Open(p, &tag, Block{}, Block{}, 0) {
			t.Fatalf("%d bytes: not opened", n)
		}
		k.Counter(p, Block{})
		k.Counter(p, Block{})
		if bytes.ContainsFunc(p, func(r rune) bool { return r != 0 }) {
			t.Fatalf("%d bytes: not as before", n)
		}
	}
}

// Every changed bit is detected, and the text is cleared.
func TestForgeriesAreCleared(t *testing.T) {
	if !here(t) {
		return
	}
	rnd := rand.New(rand.NewPCG(2, 1))
	k, _ := NewKey(random(rnd, 16))
	text, nonce, aad := random(rnd, 300), random(rnd, NonceLen), random(rnd, 12)
	var tag [TagLen]byte
	sealed := bytes.Clone(text)
	k.Seal(sealed, &tag, first(nonce), block(aad), len(aad))
	for bit := range 8 * (len(sealed) + TagLen + NonceLen + len(aad)) {
		all := slices.Concat(sealed, tag[:], nonce, aad)
		all[bit/8] ^= 1 << (bit % 8)
		p, rest := all[:len(sealed)], all[len(sealed):]
		if k.Open(p, (*[TagLen]byte)(rest), first(rest[TagLen:]), block(rest[TagLen+NonceLen:]), len(aad)) {
			t.Fatalf("with bit %d changed it is opened", bit)
		}
		if !bytes.Equal(p, make([]byte, len(p))) {
			t.Fatalf("with bit %d changed there is something left", bit)
		}
	}
}

// Counter agrees with crypto/cipher until its 32 bits overflow.
func TestCounterAgreesWithTheLibrary(t *testing.T) {
	if !here(t) {
		return
	}
	rnd := rand.New(rand.NewPCG(3, 1))
	for n := range 1500 {
		key, start, text := random(rnd, 16+8*rnd.IntN(3)), random(rnd, 16), random(rnd, n)
		start[12] &= 0x7f
		b, _ := aes.NewCipher(key)
		want := make([]byte, n)
		cipher.NewCTR(b, start).XORKeyStream(want, text)
		k, _ := NewKey(key)
		if k.Counter(text, block(start)); !bytes.Equal(text, want) {
			t.Fatalf("%d bytes:\n %x, want\n %x", n, text, want)
		}
	}
}

func TestNothingIsAllocatedAndNothingStays(t *testing.T) {
	if !here(t) {
		return
	}
	k, _ := NewKey(make([]byte, 16))
	p, tag := make([]byte, 1408), new([TagLen]byte)
	if n := testing.AllocsPerRun(100, func() {
		k.Seal(p, tag, Block{1, 2}, Block{3, 0}, 8)
		k.Open(p, tag, Block{1, 2}, Block{3, 0}, 8)
		k.Counter(p, Block{1, 2})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if k.Zero(); *k != (Key{}) {
		t.Error("something of the key stays")
	}
}
