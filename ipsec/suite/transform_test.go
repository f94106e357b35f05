package suite

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"hash"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/crypto/chacha20poly1305"
)

// keys returns keys of a suite from seed.
func keys(s *Suite, seed uint64) (key, authKey []byte) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	return random(rnd, s.KeyLen+s.SaltLen), random(rnd, s.AuthKeyLen)
}

func random(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// plainly is Seal composed of the library's calls.
func plainly(s *Suite, key, authKey, p []byte, seqHigh uint32, esn bool) []byte {
	head, iv, body := p[:8], p[8:8+s.IVLen], p[8+s.IVLen:len(p)-s.ICVLen]
	high := binary.BigEndian.AppendUint32(nil, seqHigh)
	if !esn {
		high = nil
	}
	aad := bytes.Join([][]byte{head[:4], high, head[4:]}, nil)
	salt := key[s.KeyLen:]
	key = key[:s.KeyLen]
	out := bytes.Clone(p[:8+s.IVLen])
	switch s.Cipher {
	case GCM:
		return must(cipher.NewGCM(must(aes.NewCipher(key)))).Seal(out, append(bytes.Clone(salt), iv...), body, aad)
	case ChaCha20:
		return must(chacha20poly1305.New(key)).Seal(out, append(bytes.Clone(salt), iv...), body, aad)
	case CTR:
		sealed := make([]byte, len(body))
		counter := bytes.Join([][]byte{salt, iv, {0, 0, 0, 1}}, nil)
		cipher.NewCTR(must(aes.NewCipher(key)), counter).XORKeyStream(sealed, body)
		out = append(out, sealed...)
	case CBC:
		sealed := make([]byte, len(body))
		cipher.NewCBCEncrypter(must(aes.NewCipher(key)), iv).CryptBlocks(sealed, body)
		out = append(out, sealed...)
	case Null:
		out = append(out, body...)
	}
	h := hmac.New(map[Auth]func() hash.Hash{SHA1: sha1.New, SHA256: sha256.New, SHA512: sha512.New}[s.Auth], authKey)
	h.Write(out)
	h.Write(high)
	return append(out, h.Sum(nil)[:s.ICVLen]...)
}

func TestSealEqualsThePlainComposition(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range All {
		s := &All[i]
		t.Run(s.Name, func(t *testing.T) {
			key, authKey := keys(s, uint64(i))
			tr := must(s.New(key, authKey))
			sizes := []int{1024, 1408, 1500, 2000, 4096, 9000, 65000}
			for n := range 301 {
				sizes = append(sizes, n)
			}
			for _, n := range sizes {
				n = (n + s.Align - 1) / s.Align * s.Align
				for _, esn := range []bool{false, true} {
					p := random(rnd, 8+s.IVLen+n+s.ICVLen)
					high := rnd.Uint32()
					want := plainly(s, key, authKey, p, high, esn)
					// Without room behind the packet, and with bytes there that must stay.
					got := append(bytes.Clone(p), "behind"...)
					tr.Seal(got[:len(p)], high, esn)
					if !bytes.Equal(got[:len(p)], want) {
						t.Fatalf("%d bytes, ESN %v:\n got  %x\n want %x", n, esn, got[:len(p)], want)
					}
					if string(got[len(p):]) != "behind" {
						t.Fatalf("%d bytes: wrote behind the packet", n)
					}
					end := len(p) - s.ICVLen
					if !tr.Open(got[:len(p)], high, esn) || !bytes.Equal(got[:end], p[:end]) || string(got[len(p):]) != "behind" {
						t.Fatalf("%d bytes, ESN %v: opened to\n      %x\n want %x", n, esn, got, p[:end])
					}
				}
			}
		})
	}
}

func TestEveryFlippedBitIsRefused(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for i := range All {
		s := &All[i]
		t.Run(s.Name, func(t *testing.T) {
			tr := must(s.New(keys(s, 5)))
			for _, n := range []int{s.Align, 64} {
				p := random(rnd, 8+s.IVLen+n+s.ICVLen)
				plain := bytes.Clone(p[8+s.IVLen:][:n])
				tr.Seal(p, 7, true)
				for bit := range len(p) * 8 {
					q := bytes.Clone(p)
					q[bit/8] ^= 1 << (bit % 8)
					if tr.Open(q, 7, true) {
						t.Fatalf("bit %d of %d: accepted", bit, len(p)*8)
					}
					if s.Cipher != Null && bytes.Contains(q, plain[:4]) {
						t.Fatalf("bit %d of %d: refused, but decrypted", bit, len(p)*8)
					}
				}
				for _, esn := range []bool{false, true} {
					if q := bytes.Clone(p); tr.Open(q, 8, esn) {
						t.Errorf("accepted with upper half 8 (ESN %v), sealed with 7", esn)
					}
				}
			}
		})
	}
}

// A peer with the key may send authentic packets with incomplete blocks.
func TestAuthenticPacketsOfWrongLengthAreRefused(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 1))
	for i := range All {
		s := &All[i]
		key, authKey := keys(s, 6)
		tr := must(s.New(key, authKey))
		for n := range 40 {
			p := random(rnd, 8+s.IVLen+n+s.ICVLen)
			if s.Auth == Combined {
				p = plainly(s, key, authKey, p, 0, false)
			} else {
				end := len(p) - s.ICVLen
				copy(p[end:], tr.mac.sum(p[:end], 0, false))
			}
			if got, want := tr.Open(p, 0, false), n%s.Align == 0; got != want {
				t.Errorf("%s: payload of %d bytes: %v, want %v", s.Name, n, got, want)
			}
		}
	}
}

func TestWrongLengthsAreRefused(t *testing.T) {
	for i := range All {
		s := &All[i]
		tr := must(s.New(keys(s, 6)))
		for n := headerLen; n < 100; n++ {
			if tr.Open(make([]byte, n), 0, false) {
				t.Errorf("%s: accepted %d zero bytes", s.Name, n)
			}
		}
	}
}

func TestKeysOfWrongLengthSayWhichIsWanted(t *testing.T) {
	for _, c := range []struct {
		suite        string
		key, authKey int
		want         string
	}{
		{"aes128gcm16", 16, 0, "a key of 20 bytes (16 and a salt of 4), not 16"},
		{"aes128gcm16", 20, 20, "an authentication key of 0 bytes, not 20"},
		{"aes256-sha512", 20, 64, "a key of 32 bytes, not 20"},
		{"null-sha256", 0, 20, "an authentication key of 32 bytes, not 20"},
	} {
		_, err := must(ByName(c.suite)).New(make([]byte, c.key), make([]byte, c.authKey))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %d and %d bytes: got %v, want %q", c.suite, c.key, c.authKey, err, c.want)
		}
	}
}

// Numbers that differ in either half have different IVs; those of CBC depend on the key.
// putIV writes the IV of a packet with a nonce.
func putIV(t *Transform, iv []byte, nonce uint64) {
	PutNonce(iv, nonce)
	t.EncryptIV(iv)
}

func TestIVs(t *testing.T) {
	for i := range All {
		s := &All[i]
		if s.IVLen == 0 {
			continue
		}
		key, authKey := keys(s, 8)
		a, b := must(s.New(key, authKey)), must(s.New(key, authKey))
		other := must(s.New(keys(s, 9)))
		seen := map[string]uint64{}
		for _, high := range []uint64{0, 1, 1 << 31} {
			for low := range uint64(1000) {
				iv, same := make([]byte, s.IVLen), make([]byte, s.IVLen)
				putIV(a, iv, high<<32|low)
				putIV(b, same, high<<32|low)
				if !bytes.Equal(iv, same) {
					t.Fatalf("%s: two workers make %x and %x of %d", s.Name, iv, same, low)
				}
				if earlier, used := seen[string(iv)]; used {
					t.Fatalf("%s: %d and %d have IV %x", s.Name, high<<32|low, earlier, iv)
				}
				seen[string(iv)] = high<<32 | low
				if s.Cipher == CBC {
					putIV(other, same, high<<32|low)
					if bytes.HasPrefix(iv, make([]byte, 4)) || bytes.Equal(iv, same) {
						t.Fatalf("%s: IV %x can be foreseen, with another key %x", s.Name, iv, same)
					}
				}
			}
		}
	}
}

// Two goroutines with one key: each opens the other's packets.
func TestClonesWorkConcurrently(t *testing.T) {
	for i := range All {
		s := &All[i]
		first := must(s.New(keys(s, 12)))
		first.Seal(make([]byte, 8+s.IVLen+64+s.ICVLen), 0, false) // its own buffers are not shared
		second := first.Clone()
		sealed := make(chan []byte, 16)
		go func() {
			defer close(sealed)
			for seq := range uint64(200) {
				p := bytes.Repeat([]byte{byte(seq)}, 8+s.IVLen+16*int(1+seq%20)+s.ICVLen)
				putIV(first, p[8:8+s.IVLen], seq)
				first.Seal(p, 0, false)
				sealed <- p
			}
		}()
		seq := 0
		for p := range sealed {
			for range 2 { // its own packets, too
				if !second.Open(p, 0, false) || p[8+s.IVLen+3] != byte(seq) {
					t.Fatalf("%s: packet %d is not authentic", s.Name, seq)
				}
				second.Seal(p, 0, false)
			}
			seq++
		}
	}
}

func TestZeroLeavesNoKey(t *testing.T) {
	for i := range All {
		s := &All[i]
		tr := must(s.New(keys(s, 9)))
		tr.Seal(make([]byte, 8+s.IVLen+64+s.ICVLen), 0, false)
		held := []any{tr.aead, tr.block, tr.enc, tr.dec, tr.iv, tr.mac.hash}
		inner, outer := tr.mac.inner, tr.mac.outer
		tr.Zero()
		for _, x := range held {
			if v := reflect.ValueOf(x); x != nil && !v.Elem().IsZero() {
				t.Errorf("%s: a %T is not overwritten", s.Name, x)
			}
		}
		if len(bytes.Trim(inner, "\x00")) > 0 || len(bytes.Trim(outer, "\x00")) > 0 {
			t.Errorf("%s: the states of HMAC are not overwritten", s.Name)
		}
		if !reflect.DeepEqual(*tr, Transform{suite: s}) {
			t.Errorf("%s: the Transform still holds something: %+v", s.Name, *tr)
		}
	}
}

func TestNothingIsAllocatedPerPacket(t *testing.T) {
	for i := range All {
		s := &All[i]
		tr := must(s.New(keys(s, 10)))
		p := make([]byte, 8+s.IVLen+1408+s.ICVLen)
		forged := make([]byte, len(p))
		tr.Seal(p, 0, false) // sees the largest packet
		if n := testing.AllocsPerRun(100, func() {
			putIV(tr, p[8:8+s.IVLen], 1)
			tr.Seal(p, 0, true)
			if !tr.Open(p, 0, true) || tr.Open(forged, 0, false) {
				panic("verdict")
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", s.Name, n)
		}
	}
}

// BenchmarkSeal and BenchmarkOpen are to be compared with BenchmarkLibrary.
func BenchmarkSeal(b *testing.B) {
	for i := range All {
		s := &All[i]
		b.Run(s.Name, func(b *testing.B) {
			tr := must(s.New(keys(s, 11)))
			p := make([]byte, 8+s.IVLen+1408+s.ICVLen)
			b.SetBytes(1408)
			for seq := uint64(0); b.Loop(); seq++ {
				putIV(tr, p[8:8+s.IVLen], seq)
				tr.Seal(p, 0, false)
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	for i := range All {
		s := &All[i]
		b.Run(s.Name, func(b *testing.B) {
			tr := must(s.New(keys(s, 11)))
			p := make([]byte, 8+s.IVLen+1408+s.ICVLen)
			tr.Seal(p, 0, false)
			q := make([]byte, len(p))
			b.SetBytes(1408)
			for b.Loop() {
				copy(q, p)
				if !tr.Open(q, 0, false) {
					b.Fatal("not authentic")
				}
			}
		})
	}
}

// BenchmarkLibrary is what crypto/cipher alone does.
func BenchmarkLibrary(b *testing.B) {
	b.Run("aes128gcm16", func(b *testing.B) {
		aead := must(cipher.NewGCM(must(aes.NewCipher(make([]byte, 16)))))
		p, nonce, aad := make([]byte, 1408+16), make([]byte, 12), make([]byte, 8)
		b.SetBytes(1408)
		for b.Loop() {
			aead.Seal(p[:0], nonce, p[:1408], aad)
		}
	})
}
