package ipsec

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

func stateSA(t *testing.T, alter func(*Config)) *SA {
	t.Helper()
	c := Config{SPI: 0x100, Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), Suite: "aes128gcm16", Key: make([]byte, 20)}
	alter(&c)
	sa, err := NewSA(c, 1)
	require.NoError(t, err)
	return sa
}

// An SA that continues from the state of another accepts exactly the numbers that the other one would.
func TestContinuedSAEqualsTheOther(t *testing.T) {
	for _, window := range []int{1, 32, 64, 1000, 4096} {
		in := func(c *Config) { c.Direction, c.ReplayWindow, c.ESN = In, window, true }
		rnd := rand.New(rand.NewPCG(1, uint64(window)))
		sa := stateSA(t, in)
		accept := func(all ...*SA) {
			seq := sa.Sequence() + rnd.Uint64N(uint64(window)+8) + 1
			seq -= min(seq, rnd.Uint64N(uint64(2*window)))
			fresh := all[0].Accept(seq)
			for _, other := range all[1:] {
				if other.Accept(seq) != fresh {
					t.Fatalf("window %d: number %d accepted: %v, and by the other not", window, seq, fresh)
				}
			}
		}
		for range 20 {
			for range 2 * window {
				accept(sa)
			}
			next := stateSA(t, in)
			next.Continue(sa.State())
			if next.Sequence() != sa.Sequence() {
				t.Fatalf("continues with %d, not with %d", next.Sequence(), sa.Sequence())
			}
			for range 2 * window {
				accept(sa, next)
			}
		}
	}
}

// Without a window, an SA continues with the highest number also after a version whose words were 0 then.
func TestContinuedSAWithoutAWindow(t *testing.T) {
	in := func(c *Config) { c.Direction, c.ReplayWindow = In, 0 }
	for _, window := range [][]byte{make([]byte, 16), nil} {
		next := stateSA(t, in)
		next.Continue(State{Sequence: 5000, Window: window})
		if next.Sequence() != 5000 {
			t.Errorf("continues with %d", next.Sequence())
		}
		if st := next.State(); st.Sequence != 5000 {
			t.Errorf("passes %d on", st.Sequence)
		}
		if next.Accept(4000); next.Sequence() != 5000 {
			t.Errorf("is at %d after an older number", next.Sequence())
		}
		if next.Accept(5001); next.Sequence() != 5001 {
			t.Errorf("is at %d after 5001", next.Sequence())
		}
	}
}

// A window of another size accepts no number twice.
func TestContinuedSAWithAnotherWindow(t *testing.T) {
	sa := stateSA(t, func(c *Config) { c.Direction, c.ReplayWindow = In, 64 })
	for _, seq := range []uint64{1, 90, 100} {
		sa.Accept(seq)
	}
	next := stateSA(t, func(c *Config) { c.Direction, c.ReplayWindow = In, 4096 })
	next.Continue(sa.State())
	for _, seq := range []uint64{1, 50, 90, 100} {
		if next.Accept(seq) {
			t.Errorf("number %d is accepted", seq)
		}
	}
	if !next.Accept(101) {
		t.Error("the next number is refused")
	}
}

// With words that do not have the highest number, all numbers up to it are received.
func TestContinuedSAWithWordsOfAnotherNumber(t *testing.T) {
	in := func(c *Config) { c.Direction, c.ReplayWindow = In, 64 }
	sa := stateSA(t, in)
	for _, seq := range []uint64{70, 90, 100} {
		sa.Accept(seq)
	}
	for _, highest := range []uint64{99, 101, 100 + 32, 100 + 4*32, 1 << 32} {
		st := sa.State()
		st.Sequence = highest
		next := stateSA(t, in)
		next.Continue(st)
		for seq := highest - 70; seq <= highest; seq++ {
			if next.Accept(seq) {
				t.Errorf("up to %d: number %d is accepted", highest, seq)
			}
		}
		if !next.Accept(highest + 1) {
			t.Errorf("up to %d: the next number is refused", highest)
		}
	}
}

// A reserved nonce base is far from the current one, and from later ones.
func TestReservedBaseIsFarFromOthers(t *testing.T) {
	var n, next Nonces
	base := n.Base()
	reserved := n.Reserve()
	if n.Base() != base {
		t.Error("the reservation has changed the base")
	}
	next.Avoid(base)
	next.Use(reserved)
	if next.Base() != reserved {
		t.Error("the reserved base is not used")
	}
	for _, other := range []uint64{base, n.Renew(), next.Renew()} {
		if d := other - reserved; d < NonceSpacing || -d < NonceSpacing {
			t.Errorf("bases %x and %x are close", other, reserved)
		}
	}
}
