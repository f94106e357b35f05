package sequences

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
)

// handOver hands a store with an outbound and an inbound SA over, and returns the next process's store and SAs.
func handOver(t *testing.T, dir string, s *Store, out, in *ipsec.SA) (next *Store, nextOut, nextIn *ipsec.SA) {
	t.Helper()
	base, err := s.ReserveNonceBase()
	require.NoError(t, err)
	states := []ipsec.State{out.State(), in.State()}
	require.NoError(t, s.HandOver())
	nextOut, nextIn = newSA(t, "out", limited), newSA(t, "in", inbound)
	n := new(ipsec.Nonces)
	next, err = Inherit(dir, n, base)
	require.NoError(t, err)
	if n.Base() != base {
		t.Errorf("nonce base %x, want the reserved one, %x", n.Base(), base)
	}
	require.NoError(t, next.Continue(Inherited{Association{nextOut, testKey}, states[0]}, Inherited{Association{nextIn, testKey}, states[1]}))
	return next, nextOut, nextIn
}

// Numbers, windows and lifetimes continue exactly without a wait for the disk, also when the next process hands over again.
// One that crashes skips the reserved numbers.
func TestHandedOverNumbersContinueExactly(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	require.NoError(t, s.Begin(new(ipsec.Nonces)))
	out := newSA(t, "out", limited)
	require.NoError(t, s.Keep(Association{out, testKey}))
	in := receiver(t, s)
	require.NoError(t, s.Live(Association{out, testKey}))
	for i := uint64(1); i <= 3; i++ {
		if first, n := out.Reserve(100); first != 100*i-99 || n != 100 {
			t.Fatalf("process %d: %d numbers from %d", i, n, first)
		}
		use(out, 2, 20)
		for _, seq := range []uint64{10 * i, 10*i - 9} {
			if !in.Accept(seq) {
				t.Errorf("process %d refuses the new number %d", i, seq)
			}
		}
		require.NoError(t, s.Note()) // as regularly
		syncs := s.used.syncs + s.received.syncs + s.lifetimes.syncs
		next, nextOut, nextIn := handOver(t, dir, s, out, in)
		if n := s.used.syncs + s.received.syncs + s.lifetimes.syncs - syncs + next.used.syncs + next.received.syncs + next.lifetimes.syncs; n > 2 {
			t.Errorf("process %d: %d waits for the disk, more than for the nonce base", i, n)
		}
		for _, seq := range []uint64{10 * i, 10*i - 9} {
			if nextIn.Accept(seq) {
				t.Errorf("process %d accepts number %d again", i+1, seq)
			}
		}
		if !nextIn.Accept(10*i - 5) { // older than the last
			t.Errorf("process %d refuses a new number in the window", i+1)
		}
		s, out, in = next, nextOut, nextIn
	}
	if n := use(out, 10, 10); n != 4 {
		t.Errorf("%d packets pass of the 4 that are left", n)
	}
	limit := out.State().Limit
	die(t, s)
	s = open(t, dir)
	if _, first := start(t, s, "after a crash"); first != limit+1 {
		t.Errorf("after a crash, numbers begin with %d, want %d", first, limit+1)
	}
	die(t, s)
}

// A state that contradicts the files is refused: the numbers may have been used.
func TestContradictoryStateIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	require.NoError(t, s.Begin(new(ipsec.Nonces)))
	out, _ := start(t, s, "out")
	base, err := s.ReserveNonceBase()
	require.NoError(t, err)
	good := out.State()
	require.NoError(t, s.HandOver())
	for name, alter := range map[string]func(*ipsec.State){
		"no limit":                  func(st *ipsec.State) { st.Limit = 0 },
		"numbers beyond the limit":  func(st *ipsec.State) { st.Sequence = st.Limit + 1 },
		"a limit that is no stored": func(st *ipsec.State) { st.Limit++ },
	} {
		st := good
		alter(&st)
		next, err := Inherit(dir, new(ipsec.Nonces), base)
		require.NoError(t, err)
		err = next.Continue(Inherited{Association{newSA(t, "out"), testKey}, st})
		if err == nil || !strings.Contains(err.Error(), "does not match the stored one") {
			t.Errorf("%s: %v", name, err)
		}
		die(t, next)
	}
}

// The next process waits for the lock, and gives up.
func TestInheritWaitsForTheLock(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	require.NoError(t, s.Begin(new(ipsec.Nonces)))
	base, err := s.ReserveNonceBase()
	require.NoError(t, err)
	if _, err := Inherit(dir, new(ipsec.Nonces), base); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("beside another store: %v", err)
	}
	time.AfterFunc(100*time.Millisecond, func() { _ = s.HandOver() })
	next, err := Inherit(dir, new(ipsec.Nonces), base)
	require.NoError(t, err)
	require.NoError(t, next.Close())
}
