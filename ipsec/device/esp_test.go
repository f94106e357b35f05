package device

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec/suite"
)

// association is a suite with keys, both ways.
type association struct {
	*suite.Suite
	out, in *Key
	host    *suite.Transform
}

func associations(t *testing.T, rnd *rand.Rand) (all []association) {
	t.Helper()
	for i := range suite.All {
		s := &suite.All[i]
		key, auth := random(rnd, s.KeyLen+s.SaltLen), random(rnd, s.AuthKeyLen)
		out, err := NewKey(s, key, auth, false)
		require.NoError(t, err)
		in, err := NewKey(s, key, auth, true)
		require.NoError(t, err)
		host, err := s.New(key, auth)
		require.NoError(t, err)
		all = append(all, association{s, out, in, host})
	}
	return all
}

// packet is an ESP packet before it is sealed, with a text of some bytes.
func (a association) packet(rnd *rand.Rand, seq uint64, text int) []byte {
	p := random(rnd, 8+a.IVLen+text+a.ICVLen)
	binary.BigEndian.PutUint32(p[4:], uint32(seq))
	suite.PutNonce(p[8:8+a.IVLen], seq)
	a.host.EncryptIV(p[8 : 8+a.IVLen])
	return p
}

// lengths of texts: of whole blocks all, of others those up to 300 and around the sizes of packets.
func (a association) lengths() (all []int) {
	for n := 0; n <= 1500; n += a.Align {
		if a.Align >= 16 || n <= 300 || n%64 <= 16 && n >= 1400 || n%512 <= 32 {
			all = append(all, n)
		}
	}
	return all
}

var teams = []int{1, 2, 4, 8, 16, 32}

// sealing returns how many lanes seal a packet, of so many: to do so by CBC takes four.
func (a association) sealing(lanes int) int {
	if a.Cipher == suite.CBC {
		return max(lanes, 4)
	}
	return lanes
}

// Package suite, which knows nothing of this code, makes the same packets.
func TestTeamsSealAndOpen(t *testing.T) {
	for i, a := range associations(t, rand.New(rand.NewPCG(2, 1))) {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(2, uint64(i)))
			var requests []*request
			var want [][]byte
			for _, text := range a.lengths() {
				for _, lanes := range teams {
					for _, extended := range []bool{false, true} {
						seq := uint64(rnd.Uint32())
						if extended {
							seq = rnd.Uint64()
						}
						high := uint32(seq >> 32)
						plain := a.packet(rnd, seq, text)
						sealed := bytes.Clone(plain)
						a.host.Seal(sealed, high, extended)
						end := len(plain) - a.ICVLen
						requests = append(requests,
							&request{operation: seal, lanes: a.sealing(lanes), extended: extended, high: high, key: a.out, packet: bytes.Clone(plain)},
							&request{operation: open, lanes: lanes, extended: extended, high: high, key: a.in, packet: bytes.Clone(sealed)})
						want = append(want, sealed, append(bytes.Clone(plain[:end]), sealed[end:]...))
					}
				}
			}
			run(t, requests...)
			for i, q := range requests {
				if q.differs != 0 || !bytes.Equal(q.packet, want[i]) {
					t.Fatalf("operation %d on %d bytes, %d lanes, extended %v: differs %#x\n%x, should be\n%x",
						q.operation, len(q.packet), q.lanes, q.extended, q.differs, q.packet, want[i])
				}
			}
		})
	}
}

// One bit makes a packet another one, wherever it is: in what is sent, or in the upper
// half of an extended sequence number, which is not.
func TestForgeriesDiffer(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 2))
	for _, a := range associations(t, rnd) {
		const high = 7
		sealed := a.packet(rnd, high<<32|1, 96)
		a.host.Seal(sealed, high, true)
		var requests []*request
		forge := func(bit int) []byte {
			p := bytes.Clone(sealed)
			p[bit/8] ^= 1 << (bit % 8)
			return p
		}
		for bit := range 8 * len(sealed) {
			requests = append(requests, &request{operation: open, lanes: teams[bit%len(teams)], extended: true, high: high, key: a.in, packet: forge(bit)})
		}
		for bit := range 32 {
			requests = append(requests, &request{operation: open, lanes: 4, extended: true, high: high ^ 1<<bit, key: a.in, packet: bytes.Clone(sealed)})
		}
		requests = append(requests, &request{operation: open, lanes: 4, high: high, key: a.in, packet: bytes.Clone(sealed)})
		run(t, requests...)
		text := sealed[8+a.IVLen : len(sealed)-a.ICVLen]
		for i, q := range requests {
			if q.differs == 0 {
				t.Errorf("%s: forgery %d is authentic", a.Name, i)
			}
			if a.Cipher != suite.GCM && i >= 8*len(sealed) && !bytes.Equal(q.packet[8+a.IVLen:len(sealed)-a.ICVLen], text) {
				t.Errorf("%s: forgery %d was decrypted", a.Name, i)
			}
		}
	}
}

// The IV of a nonce is the one that package suite gives it.
func TestIVs(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 3))
	for _, a := range associations(t, rnd) {
		var requests []*request
		var want [][]byte
		for range 20 {
			seq := rnd.Uint64()
			p := a.packet(rnd, seq, 32)
			want = append(want, bytes.Clone(p))
			suite.PutNonce(p[8:8+a.IVLen], seq)
			requests = append(requests, &request{operation: encryptIV, key: a.out, packet: p})
		}
		run(t, requests...)
		for i, q := range requests {
			if !bytes.Equal(q.packet, want[i]) {
				t.Fatalf("%s: %x, should be %x", a.Name, q.packet, want[i])
			}
		}
	}
}

// What is not aligned, too short or not whole blocks is refused.
func TestPacketsFit(t *testing.T) {
	for _, a := range associations(t, rand.New(rand.NewPCG(2, 4))) {
		var requests []*request
		var want []bool
		around := 8 + a.IVLen + a.ICVLen
		for at := range uint32(8) {
			for n := range 200 {
				requests = append(requests, &request{operation: fits, key: [...]*Key{a.out, a.in}[at/4], high: at, counter: uint32(n), packet: make([]byte, 256)})
				want = append(want, at%4 == 0 && n >= around && (n-around)%a.Align == 0)
			}
		}
		run(t, requests...)
		for i, q := range requests {
			if got := q.differs != 0; got != want[i] {
				t.Errorf("%s: %d bytes at %d: %v", a.Name, q.counter, q.high, got)
			}
		}
	}
}

func TestKeysOfOtherLengthsAreRefused(t *testing.T) {
	for i := range suite.All {
		s := &suite.All[i]
		key, auth := make([]byte, s.KeyLen+s.SaltLen), make([]byte, s.AuthKeyLen)
		for _, wrong := range []struct{ key, auth []byte }{{append(key, 0), auth}, {key, append(auth, 0)}} {
			if _, err := NewKey(s, wrong.key, wrong.auth, false); err == nil {
				t.Errorf("%s takes keys of %d and %d bytes", s.Name, len(wrong.key), len(wrong.auth))
			}
		}
	}
}

func TestZeroLeavesNothing(t *testing.T) {
	for _, a := range associations(t, rand.New(rand.NewPCG(2, 5))) {
		for _, k := range []*Key{a.out, a.in} {
			k.Zero()
			if b := k.Bytes(); len(b) != KeyBytes || !bytes.Equal(b, make([]byte, len(b))) {
				t.Errorf("%s: %x is left", a.Name, b)
			}
		}
	}
}
