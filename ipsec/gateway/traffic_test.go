package gateway

import (
	"cmp"
	"slices"
	"testing"

	"github.com/warproute/warproute/ipsec"
)

// The traffic of a tunnel is one line per direction that never decreases, however often its SAs are
// replaced, and takes bounded memory.
func TestTrafficContinuesOverRekeying(t *testing.T) {
	g := &Gateway{}
	pass := func(s *ipsec.SA) { s.Count(0, 1, 100) }
	receive := func(s *ipsec.SA) { // one packet, one with a wrong ICV, two replays
		s.Confirm(0, 1, false)
		for range 3 {
			s.Confirm(0, 1, true)
		}
		pass(s)
	}
	sent := func(n uint64) Traffic { return Traffic{"b", ipsec.Out, ipsec.Stats{Packets: n, Bytes: 100 * n}} }
	received := func(n uint64) Traffic {
		return Traffic{"b", ipsec.In, ipsec.Stats{Packets: n, Bytes: 100 * n, Replays: 2 * n, ICVFailures: n}}
	}
	expect := func(when string, want ...Traffic) {
		t.Helper()
		got := g.Traffic()
		slices.SortFunc(got, func(a, b Traffic) int {
			return cmp.Or(cmp.Compare(a.Tunnel, b.Tunnel), cmp.Compare(a.Direction, b.Direction))
		})
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	const generations = 5
	var out, in *ipsec.SA
	for i := range uint64(generations) {
		oldOut, oldIn := out, in
		out, in = newSA(t, g, ipsec.Out, "b", 0x100+uint32(i)), newSA(t, g, ipsec.In, "b", 0x200+uint32(i))
		pass(out)
		receive(in)
		if i == 0 {
			continue
		}
		expect("beside its successor", sent(2*i), received(i+1))
		g.Remove(oldOut)
		g.Remove(oldOut)
		g.Remove(oldIn)
		pass(oldOut) // a worker finishes its batch
		expect("removed", sent(2*i+1), received(i+1))
		oldOut.Zero()
		oldIn.Zero()
		expect("gone", sent(2*i+1), received(i+1))
	}
	if n := len(g.tunnels.get(0).past[ipsec.Out].leaving); n != 0 {
		t.Errorf("%d associations that are gone are kept", n)
	}
	g.Remove(out)
	g.Remove(in)
	expect("without any", sent(2*generations-1), received(generations))
	g.Retire()
	expect("retired")
	newSA(t, g, ipsec.Out, "b", 0x300)
	expect("again, before the number is free", sent(0))
}
