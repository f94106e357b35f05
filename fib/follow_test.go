package fib

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// replica is a copy of the arrays, built from the reported words.
type replica struct {
	Words
	reuses, flushes int
}

func newReplica(f *FIB) *replica {
	w := f.Words()
	return &replica{Words: Words{slices.Clone(w.NextHops), slices.Clone(w.Groups), slices.Clone(w.Adjacencies), slices.Clone(w.Ports), slices.Clone(w.Ingress)}}
}

func (r *replica) Word(a Array, index uint32, word uint64) {
	switch a {
	case NextHops:
		r.NextHops[index] = word
	case Groups:
		r.Groups[index] = uint32(word)
	case Adjacencies:
		r.Adjacencies[index] = word
	case Ports:
		r.Ports[index] = word
	case Ingress:
		r.Ingress[index] = uint32(word)
	}
}

func (r *replica) Reuse() { r.reuses++ }
func (r *replica) Flush() { r.flushes++ }

// is reports whether the copy equals the arrays of f.
func (r *replica) is(f *FIB) bool {
	w := f.Words()
	return slices.Equal(r.NextHops, w.NextHops) && slices.Equal(r.Groups, w.Groups) &&
		slices.Equal(r.Adjacencies, w.Adjacencies) && slices.Equal(r.Ports, w.Ports) && slices.Equal(r.Ingress, w.Ingress)
}

// churn makes changes of all kinds.
func churn(t *testing.T, f *FIB, rnd *rand.Rand, n int) {
	t.Helper()
	var hops []NextHopID
	for range n {
		adj, err := f.NewAdjacency(uint16(rnd.IntN(8)))
		require.NoError(t, err)
		f.SetAdjacency(adj, uint16(rnd.IntN(8)), MAC(rnd.Uint64N(1<<48)))
		f.SetPort(uint16(rnd.IntN(8)), MAC(rnd.Uint64N(1<<48)), 1500)
		f.SetRPF(uint16(rnd.IntN(8)), RPF{RPFMode(rnd.IntN(3)), RPFMode(rnd.IntN(3))})
		id, err := f.NewNextHop(KindForward, []Path{{Adjacency: adj, Weight: 1}, {Adjacency: 1, Weight: 2}}[:1+rnd.IntN(2)]...)
		require.NoError(t, err)
		if hops = append(hops, id); rnd.IntN(3) == 0 {
			f.FreeNextHop(hops[0])
			hops = hops[1:]
		}
		f.Commit()
	}
}

// Every follower receives every change until it ends; the others continue.
func TestFollowersReceiveTheSameChanges(t *testing.T) {
	f, rnd := New(1), rand.New(rand.NewPCG(1, 1))
	first, second := newReplica(f), newReplica(f)
	endFirst := f.Follow(first)
	f.Follow(second)
	churn(t, f, rnd, 200)
	if !first.is(f) || !second.is(f) {
		t.Error("a copy differs from the FIB")
	}
	if first.reuses == 0 || first.reuses != second.reuses || first.flushes != 200 || second.flushes != 200 {
		t.Errorf("%d and %d reuses, %d and %d flushes", first.reuses, second.reuses, first.flushes, second.flushes)
	}
	endFirst()
	endFirst() // again: nothing
	churn(t, f, rnd, 200)
	if first.is(f) || first.flushes != 200 {
		t.Error("a follower received changes after its end")
	}
	if !second.is(f) || second.flushes != 400 {
		t.Error("the end of one follower stopped another")
	}
}
