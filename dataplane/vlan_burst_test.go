package dataplane

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/umem"
)

// runs calls f for the places of a burst. Most of them repeat the choice before, of n.
func runs(rnd *rand.Rand, places, n int, f func(place, choice int)) {
	choice := rnd.IntN(n)
	for i := range places {
		if rnd.IntN(1+rnd.IntN(8)) == 0 {
			choice = rnd.IntN(n)
		}
		f(i, choice)
	}
}

// Bursts in which VLANs, priorities, other and truncated frames alternate in runs lose the tags, and are counted, as if
// each frame were alone.
func TestUntagOfBurstsAgreesWithSingleFrames(t *testing.T) {
	burst, _ := untagWorker(t)
	single, _ := untagWorker(t)
	kinds := [][]byte{
		{0x81, 0, 0, 5, 8, 0}, {0x81, 0, 0xe0, 5, 8, 0}, {0x81, 0, 0, 5, 0x86, 0xdd}, {0x81, 0, 0x0f, 0xff, 8, 0}, {8, 0}, {0x86, 0xdd},
		{0x81, 0, 0, 9, 8, 0}, {0x81, 0, 0x01, 5, 8, 0}, {0x88, 0xa8, 0, 6, 8, 0}, {0x88, 0xa8, 0, 6, 0x81, 0, 0, 7, 8, 0}, {0x81, 0, 0, 0, 8, 0}, {0x81, 0, 0, 5, 8, 6}, {0x81, 0, 0, 5},
	}
	rnd := rand.New(rand.NewPCG(7, 7))
	tallied := [6]logicalTally{}
	for range 20_000 {
		var in []batch.Frame
		runs(rnd, 1+rnd.IntN(64), len(kinds), func(i, kind int) {
			frame := append(make([]byte, macsLen), kinds[kind]...)
			length := len(frame) + rnd.IntN(40)
			if rnd.IntN(30) == 0 {
				length = macsLen + rnd.IntN(len(kinds[kind])+1) // ends within its tags
			}
			f := batch.Frame{Addr: uint32(i*umem.FrameSize + umem.DataOffset), Len: uint16(length)}
			for _, w := range []*worker{burst, single} {
				clear(w.mem[f.Addr:][:64])
				copy(w.mem[f.Addr:], frame)
			}
			in = append(in, f)
		})
		var want []batch.Frame
		bytes := 0
		for _, f := range in {
			bytes += int(f.Len)
			if single.removeTags(&f) == batch.Unprocessed {
				want = append(want, f)
			}
		}
		free := burst.pool.Len()
		got := slices.Clone(in)
		kept, length := burst.untag(got)
		if length != bytes || !slices.Equal(got[:kept], want) {
			t.Fatalf("untag of %v keeps %v of %d bytes, removeTags %v of %d", in, got[:kept], length, want, bytes)
		}
		for n := range tallied {
			if got, want := burst.logical.tallies[n], single.logical.tallies[n]; got != want {
				t.Fatalf("port %d: tally %+v, with single frames %+v", n, got, want)
			}
			tallied[n] = burst.logical.tallies[n]
		}
		for range burst.pool.Len() - free { // drops
			burst.pool.Take()
		}
		if rnd.IntN(100) == 0 {
			burst.logical.flush()
			single.logical.flush()
		}
	}
	if tallied[1].rx.packets() == 0 || tallied[4].rx.packets() == 0 {
		t.Errorf("no packets of VLANs: %+v", tallied)
	}
}

// Packets of chunks in which egress VLANs, the physical port, and drops alternate in runs are listed and counted as if each
// were alone.
func TestListOfChunksAgreesWithSinglePackets(t *testing.T) {
	const vlans = 8
	chunk, single := benchWorker(t, vlans, true), benchWorker(t, vlans, true)
	c := chunk.free[0]
	rnd := rand.New(rand.NewPCG(8, 8))
	sent := 0
	for range 20_000 {
		c.N = 1 + rnd.IntN(benchChunk)
		runs(rnd, c.N, vlans+3, func(i, port int) {
			addr, length := uint32(i*umem.FrameSize+umem.DataOffset), uint16(60+rnd.IntN(1000))
			c.In[i] = batch.Frame{Addr: addr, Len: length, Origin: batch.From(uint16(rnd.IntN(vlans)))}
			c.Out[i] = batch.ForwardTo(uint16(port), addr-uint32(rnd.IntN(8)), length)
			if port > vlans {
				c.Out[i].Verdict = batch.Drop(batch.TooShort)
			}
		})
		in, out := slices.Clone(c.In[:c.N]), slices.Clone(c.Out[:c.N])
		free := chunk.pool.Len()
		chunk.dispatch(c)
		for i, r := range out {
			port := r.Verdict.Port()
			f := batch.Frame{Addr: r.Addr(), Len: r.Len(), Origin: in[i].Origin}
			if r.Verdict.Action() == batch.ActionForward && (port == 0 && !single.tx[0].add(f.Word(), 0) || port > 0 && !single.list(f, port)) {
				t.Fatalf("packet %d is not listed on port %d", i, port)
			}
		}
		got, want := &chunk.tx[0], &single.tx[0]
		if !slices.Equal(got.words[:got.n], want.words[:want.n]) || !slices.Equal(got.ports[:got.n], want.ports[:want.n]) {
			t.Fatalf("%d packets in chunks, %d single ones: %x and %x", got.n, want.n, got.words[:got.n], want.words[:want.n])
		}
		for n := range vlans + 1 {
			if got, want := chunk.logical.tallies[n], single.logical.tallies[n]; got != want {
				t.Fatalf("port %d: tally %+v, with single packets %+v", n, got, want)
			}
		}
		sent += got.n
		got.n, want.n = 0, 0
		for range chunk.pool.Len() - free { // drops
			chunk.pool.Take()
		}
		if rnd.IntN(100) == 0 {
			chunk.logical.flush()
			single.logical.flush()
		}
	}
	if sent < 1_000_000 {
		t.Errorf("%d packets sent", sent)
	}
}
