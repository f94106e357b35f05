package gpu

import (
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
)

// TestTunnelsAreLentBeforePackets: before the device assigns numbers, those of all tunnels are lent, some with each chunk, and again after
// the loans have ended.
func TestTunnelsAreLentBeforePackets(t *testing.T) {
	const n, without = 2*tunnelsAtOnce + 10, 2
	r := newLenderRig(t, n)
	by := &testOutbound{longest: 1400, leaves: true, tunnels: slices.Clone(r.sas)}
	by.tunnels[5], by.tunnels[tunnelsAtOnce] = limited(t, 5), nil
	lent := func() (all int) {
		for _, s := range r.sas {
			if s.Lender() != nil {
				all++
			}
		}
		return all
	}
	for _, c := range []struct {
		name string
		end  func()
	}{
		{"at the start", func() { r.l.restart() }},
		{"after a stop", func() { r.l.end(); r.l.start() }},
		{"after a loss", func() { r.lose.Store(1); r.l.ask([]request{{what: requestTake}}, nil); r.l.revoke(); (<-r.late)() }},
	} {
		c.end()
		if lent() != 0 {
			t.Errorf("%s: %d SAs are lent, want none", c.name, lent())
		}
		for k, want := range []int{tunnelsAtOnce - 1, 2*tunnelsAtOnce - without, n - without} {
			if ready := r.l.ensureReady(by); ready != (want == n-without) || lent() != want {
				t.Errorf("%s: call %d: ready %v, %d SAs are lent, want %d", c.name, k, ready, lent(), want)
			}
		}
		if len(r.l.order) != n-without {
			t.Errorf("%s: %d loans, want %d", c.name, len(r.l.order), n-without)
		}
	}
	for i := range r.sas {
		r.assign(i, 3)
	}
	if got := r.n.Load(); got != 3*(n-without) {
		t.Errorf("the device has assigned %d numbers, want 3 for each of %d SAs", got, n-without)
	}
}

// TestHostTakesNumbersBeforeAnyAreAssigned: while tunnels are lent, the host takes numbers of chunks that have another form. No loan ends
// for that, however slowly chunks follow each other.
func TestHostTakesNumbersBeforeAnyAreAssigned(t *testing.T) {
	const calls = 4
	r := newLenderRig(t, calls*tunnelsAtOnce)
	r.l.restart()
	r.l.weighEvery = time.Hour
	by := &testOutbound{longest: 1400, leaves: true, tunnels: r.sas}
	for k := range calls {
		r.l.since -= 10 * time.Hour // this chunk is late
		if ready := r.l.ensureReady(by); ready != (k == calls-1) {
			t.Fatalf("call %d: ready %v", k, ready)
		}
		for _, s := range r.sas[:k*tunnelsAtOnce+1] {
			s.Reserve(40)
		}
	}
	for i, s := range r.sas {
		if s.Lender() == nil {
			t.Fatalf("the loan of SA %d has ended", i)
		}
	}
}

// TestNothingIsLentDuringAPause: not by ensureReady either, which a worker may call when another one has just begun the pause.
func TestNothingIsLentDuringAPause(t *testing.T) {
	r := newLenderRig(t, 1)
	r.l.restart()
	r.l.pausedUntil.Store(1 << 60)
	if r.l.ensureReady(&testOutbound{longest: 1400, leaves: true, tunnels: r.sas}) || r.sas[0].Lender() != nil {
		t.Error("lent")
	}
}

// limited returns an SA that has a limit in packets.
func limited(t *testing.T, tunnel uint32) *ipsec.SA {
	c := ipsec.Config{Name: "limited", SPI: 256 + tunnel, Tunnel: tunnel, Suite: "aes128gcm16", Key: make([]byte, 20), Src: ours4, Dst: far4, Mode: ipsec.Tunnel}
	c.Lifetime.Hard.Packets = 1000
	s, err := ipsec.NewSA(c, 1)
	require.NoError(t, err)
	return s
}

// TestLoansEndWhenTheHostTakesMany: and begin again after a pause.
func TestLoansEndWhenTheHostTakesMany(t *testing.T) {
	r := newLenderRig(t, 1)
	r.lend(r.sas[0])
	r.l.weighEvery, r.l.since = weighTime, -weighTime
	r.l.assigned.Store(10)
	if r.sas[0].Reserve(5); r.sas[0].Lender() != nil || r.l.pausedUntil.Load() == 0 {
		t.Error("the SA is still lent")
	}
	if r.lend(r.sas[0]); r.sas[0].Lender() != nil {
		t.Error("the SA is lent during the pause")
	}
	r.l.pausedUntil.Store(0)
	if r.lend(r.sas[0]); r.sas[0].Lender() == nil {
		t.Error("the SA is not lent after it")
	}
}

// TestSAsAreLentByPacketsIfTheHostTakesMany: if tunnels were lent again, the host would take their numbers again.
func TestSAsAreLentByPacketsIfTheHostTakesMany(t *testing.T) {
	r := newLenderRig(t, 2*tunnelsAtOnce)
	r.l.restart()
	by := &testOutbound{longest: 1400, leaves: true, tunnels: r.sas}
	if r.l.ensureReady(by) {
		t.Fatal("ready after half of the tunnels")
	}
	r.l.weighEvery, r.l.since = weighTime, -weighTime
	r.sas[0].Reserve(5)
	r.l.pausedUntil.Store(0)
	if !r.l.ensureReady(by) {
		t.Error("the device is not ready")
	}
	r.l.lend(r.sas[1:2], by)
	for i, s := range r.sas {
		if want := i == 1; s.Lender() != nil != want {
			t.Fatalf("SA %d is lent: %v, want %v", i, !want, want)
		}
	}
}

// TestLossWhileTheHostTakesMany: the pause after a loss stays as long as it is, and all tunnels are lent after it.
func TestLossWhileTheHostTakesMany(t *testing.T) {
	for name, lost := range map[string]int32{"when the host takes numbers": 1, "when the loans end": 2} {
		r := newLenderRig(t, 2)
		r.l.restart()
		by := &testOutbound{longest: 1400, leaves: true, tunnels: r.sas}
		if !r.l.ensureReady(by) {
			t.Fatal("not ready")
		}
		r.l.weighEvery, r.l.since, r.l.shortest = weighTime, -weighTime, 10*lendPause
		r.lose.Store(lost)
		r.sas[0].Reserve(5)
		if until := time.Duration(r.l.pausedUntil.Load()); until < batch.Clock()+9*lendPause || r.l.nextTunnel != 0 || r.l.ready.Load() {
			t.Errorf("%s: paused until %v, next tunnel %d, ready %v", name, until, r.l.nextTunnel, r.l.ready.Load())
		}
		(<-r.late)()
	}
}

// TestLoansEndWithTheirSA: it is not usable any more, or another one is the current one of its tunnel, or its longest packet
// changes.
func TestLoansEndWithTheirSA(t *testing.T) {
	by := &testOutbound{}
	for what, change := range map[string]func(s *ipsec.SA){
		"killed": (*ipsec.SA).Kill, "not current": func(*ipsec.SA) { by.leaves = false }, "longest packet": func(*ipsec.SA) { by.longest = 1300 }, "erased": (*ipsec.SA).Zero,
	} {
		r := newLenderRig(t, 1)
		*by = testOutbound{longest: 1400, leaves: true}
		refresh := func() { r.l.due.Store(0); r.l.review(by) }
		r.lend(r.sas[0])
		if refresh(); r.sas[0].Lender() == nil {
			t.Fatalf("%s: the loan ends too early", what)
		}
		change(r.sas[0])
		if refresh(); r.sas[0].Lender() != nil || r.tunnels[0].Load() != 0 || r.next[0].Load() != seqsRetired {
			t.Errorf("%s: still lent", what)
		}
	}
}

// TestSAThatIsReplacedWhileItIsLent: its loan ends once, though it is in the list several times.
func TestSAThatIsReplacedWhileItIsLent(t *testing.T) {
	r := newLenderRig(t, 2)
	by := &testOutbound{longest: 1400, leaves: true}
	serve := r.l.fakeGPU
	r.l.fakeGPU = func(s *slot, n int) {
		serve(s, n)
		by.leaves = false
	}
	r.l.lend([]*ipsec.SA{r.sas[0], r.sas[1], r.sas[0]}, by)
	if !r.l.state.ok() || r.l.revoked.Load() != 0 || len(r.l.sas) != 0 || len(r.l.order) != 0 {
		t.Errorf("device in use: %v, losses %d, loans %d and %d", r.l.state.ok(), r.l.revoked.Load(), len(r.l.sas), len(r.l.order))
	}
}
