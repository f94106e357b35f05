package xfrm

import (
	"math"
	"net/netip"
	"testing"

	"github.com/warproute/warproute/ipsec"
)

func TestReinstalledOutboundStateContinuesItsSequence(t *testing.T) {
	f := newFake(t)
	stale := outState(0x200) // as a key daemon that moves a state knows it: of the last report
	stale.sequence = 10
	f.apply(outPolicy(1).message(msgNewPolicy), stale.message(msgNewSA))
	old, _ := f.outbound()
	if old.Sequence() != 10 {
		t.Fatalf("it begins after %d, want what Linux says", old.Sequence())
	}
	old.Reserve(90)
	f.apply(stale.message(msgDelSA), stale.message(msgNewSA))
	old.Reserve(5) // by a worker that still used it
	if s, e := f.outbound(); s != nil {
		t.Fatalf("an association with the same keys is used (%v) while a worker may use the one before", e)
	}
	f.quiesce()
	if s, e := f.outbound(); s == nil || s == old || s.Sequence() != 105 {
		t.Errorf("it continues as %v (%v), want after 105", s, e)
	}

	rekeyed := outState(0x200)
	rekeyed.key++
	f.apply(stale.message(msgDelSA), rekeyed.message(msgNewSA))
	if s, _ := f.outbound(); s == nil || s.Sequence() != 0 {
		t.Error("one with other keys waits, or does not begin at 0")
	}
}

func TestReinstalledInboundStateKeepsReplayWindow(t *testing.T) {
	f := newFake(t)
	f.apply(inState(0x100).message(msgNewSA))
	f.gateway.Inbound(0x100, here).Accept(77)
	f.apply(inState(0x100).message(msgDelSA), inState(0x100).message(msgNewSA))
	f.quiesce()
	s := f.gateway.Inbound(0x100, here)
	if s == nil || s.Accept(77) || s.Accept(70) || !s.Accept(78) {
		t.Errorf("%v accepts an old number, or no new one", s)
	}
}

func TestStateDeletedWhileWaitingIsNotInstalled(t *testing.T) {
	f := newFake(t)
	out := outState(0x200)
	f.apply(out.message(msgNewSA), out.message(msgDelSA), out.message(msgNewSA), out.message(msgDelSA))
	f.quiesce()
	if s := f.stats(); s.Associations != 0 || len(f.states) != 0 || len(f.memory.owners) != 0 {
		t.Errorf("%+v, %d states, %d departing", s, len(f.states), len(f.memory.owners))
	}
}

func TestRestartSkipsNumbers(t *testing.T) {
	for _, test := range []struct {
		sequence uint32
		left     bool
	}{{0, true}, {1000, true}, {math.MaxUint32 - 1000, false}} {
		f := newFake(t)
		f.gap = restartGap
		out := outState(0x200)
		out.sequence = test.sequence
		f.apply(outPolicy(1).message(msgNewPolicy), out.message(msgNewSA))
		s, _ := f.outbound()
		if got := s.Sequence(); got != uint64(test.sequence)+restartGap {
			t.Errorf("after %d it continues after %d", test.sequence, got)
		}
		if _, n := s.Reserve(1); (n == 1) != test.left {
			t.Errorf("after %d there are numbers: %v", test.sequence, n == 1)
		}
	}
}

func TestMemoryEnds(t *testing.T) {
	m := newMemory()
	for i := range uint64(3 * memorySize) {
		m.claim(&association{state: &state{nonceID: i}})
		m.release(deletedSA{i, i, i + 1})
	}
	if n := len(m.recent) + len(m.earlier); n > 2*memorySize {
		t.Errorf("it knows %d", n)
	}
	if last := uint64(3*memorySize - 1); m.last(last) != last+1 || m.last(last-memorySize/2) == 0 {
		t.Error("it forgot what was recent")
	}
}

func TestKeysAreOverwrittenWhenNoWorkerCanUseThem(t *testing.T) {
	f := newFake(t)
	f.apply(outPolicy(1).message(msgNewPolicy), outState(0x200).message(msgNewSA))
	for _, a := range f.states {
		if a.key != nil {
			t.Error("the state keeps its key")
		}
	}
	s, _ := f.outbound()
	f.apply(outState(0x200).message(msgDelSA))
	seal := func() ipsec.Error {
		buf := make([]byte, 512)
		_, _, e := s.Encapsulate(0, buf, 128, copy(buf[128:], echo(netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.2.0.1"), 1)))
		return e
	}
	if e := seal(); e != ipsec.OK {
		t.Errorf("a worker that had begun cannot finish: %v", e)
	}
	if len(f.waits) != 1 || len(f.memory.owners) != 1 {
		t.Fatal("workers are not waited for")
	}
	f.quiesce()
	if len(f.memory.owners) != 0 {
		t.Error("it has not deletedSA, although all workers have finished")
	}
	if e := seal(); e != ipsec.OutStateInvalid {
		t.Errorf("afterwards: %v", e)
	}
}

// Two states with the same key would use the same nonces, which are sequence numbers.
func TestStatesWithTheSameKeyAreNotUsedTogether(t *testing.T) {
	f := newFake(t)
	first, second, received := outState(0x200), outState(0x201), inState(0x100)
	second.key, received.key = first.key, first.key
	f.apply(outPolicy(1).message(msgNewPolicy), first.message(msgNewSA), second.message(msgNewSA), received.message(msgNewSA))
	if got := f.outboundSPI(); got != 0x200 {
		t.Fatalf("packets use %#x", got)
	}
	if f.gateway.Inbound(0x100, here) != nil {
		t.Error("packets are received with a key that packets are sent with")
	}
	s, _ := f.outbound()
	s.Reserve(90)
	f.apply(first.message(msgDelSA))
	f.quiesce()
	if s, e := f.outbound(); f.outboundSPI() != 0x201 || s.Sequence() != 90 {
		t.Errorf("the second is not there (%v), or begins with numbers of the first", e)
	}
	f.apply(second.message(msgDelSA))
	f.quiesce()
	if s := f.gateway.Inbound(0x100, here); s == nil || s.Sequence() != 0 {
		t.Errorf("the inbound one is not there (%v), or does not begin as its sender does", s)
	}
	f.apply(received.message(msgDelSA))
	f.quiesce()
	if len(f.memory.owners) != 0 {
		t.Errorf("%d secrets are held by nobody", len(f.memory.owners))
	}
}
