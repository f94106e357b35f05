package ipsec

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/warproute/warproute/internal/race"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec/suite"
	"github.com/warproute/warproute/packet"
)

// attacker knows an SA, and its keys if the peer itself misbehaves.
type attacker struct {
	rnd  *rand.Rand
	c    Config
	st   *suite.Suite
	keys *suite.Transform
	seq  uint64 // last used
	late uint64 // one that was left out, or 0
	sent []sent
}

// sent is an accepted packet.
type sent struct {
	seq uint64
	p   []byte
}

// sealed returns an authentic packet around a body, trailer included, of a multiple of Align.
func (a *attacker) sealed(seq uint64, body []byte) []byte {
	p := ipPacket(a.rnd, true, protoESP, espLen+a.st.IVLen+len(body)+a.st.ICVLen)
	setTOS(p, 0)
	esp := p[packet.IPv4Len:]
	binary.BigEndian.PutUint32(esp, a.c.SPI)
	binary.BigEndian.PutUint32(esp[4:], uint32(seq))
	suite.PutNonce(esp[espLen:espLen+a.st.IVLen], seq)
	a.keys.EncryptIV(esp[espLen : espLen+a.st.IVLen])
	copy(esp[espLen+a.st.IVLen:], body)
	a.keys.Seal(esp, uint32(seq>>32), a.c.ESN)
	return p
}

// body returns a packet with behind it TFC bytes, then padding and trailer.
func (a *attacker) body(inner []byte, tfc int, next packet.Protocol) []byte {
	b := append(bytes.Clone(inner), randomBytes(a.rnd, tfc)...)
	pad := -(len(b) + 2) & (a.st.Align - 1)
	if room := (255 - pad) / a.st.Align; a.rnd.IntN(4) == 0 {
		pad += a.rnd.IntN(room+1) * a.st.Align // more than needed
	}
	for i := range pad {
		b = append(b, byte(i+1))
	}
	return append(b, byte(pad), byte(next))
}

func (a *attacker) inner() []byte {
	v4 := a.rnd.IntN(2) == 0
	p := ipPacket(a.rnd, v4, 17, a.rnd.IntN(60))
	setTOS(p, 0)
	return p
}

func (a *attacker) fresh() uint64 { a.seq++; return a.seq }

func nextOf(p []byte) packet.Protocol {
	if p[0]>>4 == 4 {
		return protoIPv4
	}
	return protoIPv6
}

// next returns a packet, its expected result, and its payload if that is OK.
func (a *attacker) next() (p []byte, want Error, inner []byte) {
	// A packet below the window: ESN infers a number far ahead, with which it is not authentic.
	again := func() ([]byte, Error, []byte) {
		s := a.sent[a.rnd.IntN(len(a.sent))]
		if a.c.ESN && s.seq+uint64(a.c.ReplayWindow) <= a.seq {
			return bytes.Clone(s.p), InStateProtoError, nil
		}
		return bytes.Clone(s.p), InStateSeqError, nil
	}
	valid := func() []byte {
		inner := a.inner()
		return a.sealed(a.seq+1, a.body(inner, 0, nextOf(inner)))
	}
	kind := a.rnd.IntN(16)
	if len(a.sent) == 0 {
		kind = 0
	}
	switch kind {
	case 0, 1, 2: // good
		inner = a.inner()
		p = a.sealed(a.fresh(), a.body(inner, 0, nextOf(inner)))
		a.sent = append(a.sent[max(0, len(a.sent)-40):], sent{a.seq, bytes.Clone(p)})
		return p, OK, inner
	case 3: // with TFC padding
		inner = a.inner()
		p = a.sealed(a.fresh(), a.body(inner, a.rnd.IntN(200), nextOf(inner)))
		return p, OK, inner
	case 4: // late, but in the window
		seq := a.late
		if a.late = 0; seq == 0 || seq+50 < a.seq {
			a.late = a.fresh() // later
			seq = a.fresh()
		}
		inner = a.inner()
		return a.sealed(seq, a.body(inner, 0, nextOf(inner))), OK, inner
	case 5: // again
		return again()
	case 6: // below the window, if never seen
		if a.seq <= uint64(a.c.ReplayWindow)+1 {
			return again()
		}
		p = a.sealed(a.seq-uint64(a.c.ReplayWindow)-a.rnd.Uint64N(2), a.body(a.inner(), 0, protoIPv4))
		if a.c.ESN {
			return p, InStateProtoError, nil
		}
		return p, InStateSeqError, nil
	case 7: // forged: any bit behind the sequence number
		p = valid()
		bit := 8*(packet.IPv4Len+espLen) + a.rnd.IntN(8*(len(p)-packet.IPv4Len-espLen))
		p[bit/8] ^= 1 << (bit % 8)
		return p, InStateProtoError, nil
	case 8: // random behind the header
		p = valid()
		copy(p[packet.IPv4Len+espLen:], randomBytes(a.rnd, len(p)))
		return p, InStateProtoError, nil
	case 9: // another's SPI
		p = valid()
		p[packet.IPv4Len+a.rnd.IntN(4)] ^= 1 << a.rnd.IntN(8)
		return p, InNoStates, nil
	case 10: // truncated, and the length says so
		p = valid()
		p = p[:packet.IPv4Len+a.rnd.IntN(len(p)-packet.IPv4Len)]
		binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
		fixChecksum(p)
		if len(p) < packet.IPv4Len+espLen {
			return p, InHdrError, nil
		}
		return p, InStateProtoError, nil
	case 11: // truncated, and the length does not say so
		p = valid()
		return p[:a.rnd.IntN(len(p))], InHdrError, nil
	case 12: // authentic, but with wrong padding
		inner = a.inner()
		b := a.body(inner, 0, nextOf(inner))
		if pad := int(b[len(b)-2]); pad > 0 && a.rnd.IntN(2) == 0 {
			b[len(b)-3-a.rnd.IntN(pad)] ^= 1 << a.rnd.IntN(8)
		} else {
			b[len(b)-2] = byte(min(255, len(b)-1+a.rnd.IntN(50))) // longer than all
		}
		if len(b) > 250 {
			return a.next()
		}
		return a.sealed(a.fresh(), b), InStateProtoError, nil
	case 13: // a dummy
		return a.sealed(a.fresh(), a.body(randomBytes(a.rnd, a.rnd.IntN(80)), 0, packet.NoNext)), InDummy, nil
	case 14: // authentic, but no packet of the kind that it says
		inner = a.inner()
		next := nextOf(inner)
		switch a.rnd.IntN(4) {
		case 0:
			next = protoIPv4 + protoIPv6 - next
		case 1:
			next = packet.UDP
		case 2:
			inner = inner[:a.rnd.IntN(len(inner))]
		case 3:
			inner[0] = byte(a.rnd.IntN(4)) << 4 // version 0 to 3
		}
		b := bytes.Clone(inner)
		pad := -(len(b) + 2) & (a.st.Align - 1) // no more: it would complete the packet
		for i := range pad {
			b = append(b, byte(i+1))
		}
		return a.sealed(a.fresh(), append(b, byte(pad), byte(next))), InStateModeError, nil
	default: // in UDP
		p = valid()
		p = append(p[:packet.IPv4Len:packet.IPv4Len], append([]byte{17, 148, 17, 148, 0, 0, 0, 0}, p[packet.IPv4Len:]...)...)
		p[9] = 17
		binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
		binary.BigEndian.PutUint16(p[24:], uint16(len(p)-packet.IPv4Len))
		fixChecksum(p)
		return p, InStateMismatch, nil
	}
}

// A million malformed or forged packets between good ones: every result is right, every good packet
// passes, and nothing outside of a packet is written.
func TestHostilePackets(t *testing.T) {
	total := 1_000_000
	if testing.Short() || race.Enabled {
		total /= 10
	}
	for i := range suite.All {
		st := &suite.All[i]
		t.Run(st.Name, func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(uint64(i), 9))
			c := config(rnd, st.Name, Tunnel, true)
			c.ESN = i%2 == 0
			c.ReplayWindow = 64
			keys, err := st.New(c.Key, c.AuthKey)
			require.NoError(t, err)
			a := &attacker{rnd: rnd, c: c, st: st, keys: keys}
			c.Direction = In
			in := newSA(t, c, 1)
			f := bytes.Repeat([]byte{canary}, frameLen)
			var good, replays uint64
			for k := range total / len(suite.All) {
				p, want, inner := a.next()
				copy(f[frameRoom:], p)
				at, n, e := in.Decapsulate(0, f, frameRoom, len(p))
				if e != want {
					t.Fatalf("packet %d: got %v, want %v: % x", k, e, want, p)
				}
				switch e {
				case OK:
					good++
					if !bytes.Equal(f[at:at+n], inner) {
						t.Fatalf("packet %d:\n got  % x\n want % x", k, f[at:at+n], inner)
					}
				case InStateSeqError:
					replays++
				}
				end := frameRoom + len(p)
				if f[frameRoom-1] != canary || f[end] != canary || k%64 == 0 && !untouched(f, frameRoom, end) {
					t.Fatalf("packet %d: written outside of it", k)
				}
				for j := frameRoom; j < end; j++ {
					f[j] = canary
				}
			}
			if got := in.Stats(); got.Packets != good || got.Replays != replays || got.ICVFailures == 0 {
				t.Errorf("counted %+v, want %d packets and %d replays", got, good, replays)
			}
		})
	}
}

func TestNothingIsAllocatedPerPacket(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	for i := range suite.All {
		for _, mode := range []Mode{Tunnel, Transport} {
			for _, v4 := range []bool{true, false} {
				c := config(rnd, suite.All[i].Name, mode, v4)
				c.Encap = &Encap{4500, 4500}
				c.Clock = new(Clock)
				c.Lifetime = Lifetime{Soft: Limits{Packets: 1 << 40}, Hard: Limits{Bytes: 1 << 50, Age: 1 << 50}}
				out, in := pair(t, c)
				p := ipPacket(rnd, v4, 17, 1300)
				f := frame(p)
				sad := SAD{}
				require.NoError(t, sad.Add(in))
				allocs := testing.AllocsPerRun(50, func() {
					copy(f[frameRoom:], p)
					at, n, e := out.Encapsulate(0, f, frameRoom, len(p))
					spi, _, ok := Inbound(f[at : at+n])
					if e != OK || !ok {
						panic("not sent")
					}
					if !v4 || mode == Tunnel { // an association by address
						_ = sad.Lookup(spi, Destination(f[at:at+n]))
					}
					f[at+n-1] ^= 1
					if _, _, e := in.Decapsulate(0, f, at, n); e != InStateProtoError {
						panic(e)
					}
					copy(f[frameRoom:], p)
					at, n, _ = out.Encapsulate(0, f, frameRoom, len(p))
					if _, _, e := in.Decapsulate(0, f, at, n); e != OK {
						panic(e)
					}
				})
				if allocs != 0 && !race.Enabled { // the race detector allocates: `make test` also runs without it
					t.Errorf("%s, %v, IPv4 %v: %v allocations", suite.All[i].Name, mode, v4, allocs)
				}
			}
		}
	}
}
