package dataplane

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/umem"
)

// runs calls f for each packet of a burst with one of n choices, mostly that of the packet before.
func runs(rnd *rand.Rand, packets, n int, f func(packet, choice int)) {
	choice := rnd.IntN(n)
	for i := range packets {
		if rnd.IntN(1+rnd.IntN(8)) == 0 {
			choice = rnd.IntN(n)
		}
		f(i, choice)
	}
}

// taken takes the frames from the pool that were freed since it had n, and returns their numbers in order.
func taken(w *worker, n int) (freed []uint32) {
	for w.pool.Len() > n {
		freed = append(freed, w.pool.Take()/umem.FrameSize)
	}
	slices.Sort(freed)
	return freed
}

// sameCounts reports whether workers have counted the same packets of logical ports and the same drops.
func sameCounts(a, b *worker) error {
	for n := range a.logical.tallies {
		if got, want := a.logical.tallies[n], b.logical.tallies[n]; got != want {
			return fmt.Errorf("port %d: tally %+v, want %+v", n, got, want)
		}
	}
	for n := range a.drops.counts {
		if got, want := a.drops.counts[n], b.drops.counts[n]; got != want {
			return fmt.Errorf("port %d: drops %v, want %v", n, got, want)
		}
	}
	return nil
}

// In bursts in which VLANs, priorities, other and truncated frames alternate in runs, frames lose their tags, are counted,
// and are dropped, as if each were alone. A VLAN comes and goes.
func TestUntagOfBurstsAgreesWithSingleFrames(t *testing.T) {
	kinds := [][]byte{ // behind the MAC addresses
		{0x81, 0, 0, 5, 8, 0}, {0x81, 0, 0xe0, 5, 8, 0}, {0x81, 0, 0, 5, 0x86, 0xdd}, {0x81, 0, 0, 7, 8, 0}, {0x81, 0, 0xe0, 7, 0x86, 0xdd}, {0x81, 0, 0x0f, 0xff, 8, 0},
		{0x81, 0, 0, 9, 8, 0}, {0x81, 0, 0x01, 5, 8, 0}, {0x81, 0, 0, 0, 8, 0}, {0x88, 0xa8, 0, 6, 8, 0}, {0x88, 0xa8, 0, 5, 8, 0}, {0x88, 0xa8, 0, 0, 8, 0},
		{0x88, 0xa8, 0, 6, 0x81, 0, 0, 7, 8, 0}, {0x81, 0, 0, 5, 0x81, 0, 0, 7, 8, 0}, {0x81, 0, 0, 7, 0x81, 0, 0, 7, 8, 0}, {0x81, 0, 0, 5, 0x81, 0, 0, 0, 8, 0},
		{0x81, 0, 0, 5, 0x88, 0xa8, 0, 0, 8, 0}, {8, 0}, {0x86, 0xdd}, {8, 6}, {0x81, 0, 0, 5, 8, 6}, {0x81, 0, 0, 5},
	}
	seven, _ := fib.MakeTag(0x8100, 7)
	for _, parent := range []uint16{0, 2} {
		burst, _ := untagWorker(t)
		single, _ := untagWorker(t)
		rnd := rand.New(rand.NewPCG(7, uint64(parent)))
		var kept uint64
		for round := range 10_000 {
			var in []batch.Frame
			runs(rnd, 1+rnd.IntN(64), len(kinds), func(i, kind int) {
				frame := append([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, kinds[kind]...)
				length := len(frame) + rnd.IntN(40)
				if rnd.IntN(20) == 0 {
					length = 1 + rnd.IntN(len(frame))
				}
				f := batch.Frame{Addr: uint32(i*umem.FrameSize + umem.DataOffset), Len: uint16(length), Origin: batch.From(parent)}
				for _, w := range []*worker{burst, single} {
					clear(w.mem[f.Addr:][:64])
					copy(w.mem[f.Addr:], frame)
				}
				in = append(in, f)
			})
			var want []batch.Frame
			bytes, free := 0, burst.pool.Len()
			for _, f := range in {
				bytes += int(f.Len)
				if reason := single.removeTags(&f); reason != batch.Unprocessed {
					single.drop(f, reason)
					continue
				}
				want = append(want, f)
			}
			got := slices.Clone(in)
			n, length, _ := burst.untag(got)
			if length != bytes || !slices.Equal(got[:n], want) {
				t.Fatalf("port %d: untag of %v keeps %v of %d bytes, removeTags %v of %d", parent, in, got[:n], length, want, bytes)
			}
			require.NoError(t, sameCounts(burst, single))
			if got, want := taken(burst, free), taken(single, free); !slices.Equal(got, want) {
				t.Fatalf("port %d: frames %v are free, want %v", parent, got, want)
			}
			kept += uint64(n)
			if rnd.IntN(100) == 0 {
				burst.logical.flush()
				single.logical.flush()
			}
			if round%200 == 0 {
				for _, w := range []*worker{burst, single} {
					if round%400 == 0 {
						w.logical.table.Delete(3, 2, seven)
					} else {
						require.NoError(t, w.logical.table.Add(3, 2, seven))
					}
				}
			}
		}
		if p := burst.logical.get(parent/2*2 + 1); p.rxPackets.Load() < 10_000 || kept < 50_000 {
			t.Errorf("port %d: %d packets in a VLAN, %d kept", parent, p.rxPackets.Load(), kept)
		}
	}
}

// listWorker returns a worker with two physical ports, and a third that is closed, and the number of a VLAN with VID 6. Behind
// it are logical ports of all kinds.
func listWorker(t *testing.T, tagsByWorkers bool) (w *worker, six uint16) {
	mem, err := umem.New(512)
	require.NoError(t, err)
	t.Cleanup(func() { mem.Close() })
	f := fib.New(1)
	f.VLANs.SetPhysical(3)
	w = &worker{
		mem: mem.Bytes(), pool: umem.NewPool(mem), fib: f, logical: newLogicalPorts(f.VLANs, 2048),
		counters: make([]portCounters, 3), drops: newDropTally(3), chunkLen: benchChunk, tx: make([]egress, 3),
	}
	w.tx[0], w.tx[1] = w.newEgress(make([]Queue, 1)), w.newEgress(make([]Queue, 1))
	take := func() uint16 {
		n, err := f.VLANs.Take()
		require.NoError(t, err)
		w.logical.all[n].Store(new(logicalPort))
		return n
	}
	vlan := func(parent uint16, tag fib.Tag) uint16 {
		n := take()
		require.NoError(t, f.VLANs.Add(n, parent, tag))
		return n
	}
	bond := func(members ...fib.Path) uint16 {
		n := take()
		f.Bonds.Add(n)
		if len(members) > 0 {
			f.Bonds.SetMembers(n, members)
		}
		return n
	}
	vlan(0, 5)
	six = vlan(0, 6)
	vlan(vlan(1, fib.ServiceTag|7), 8)
	vlan(1, 9)
	vlan(2, 10)                                                            // of the closed port
	vlan(bond(fib.Path{Adjacency: 1, Weight: 1}), 11)                      // one member
	bond()                                                                 // none
	bond(fib.Path{Adjacency: 2, Weight: 1})                                // a closed one
	vlan(bond(fib.Path{Weight: 1}, fib.Path{Adjacency: 1, Weight: 1}), 12) // two
	if tagsByWorkers {
		f.VLANs.LeaveTags()
	}
	return w, six
}

// Packets of chunks that leave by physical and logical ports of all kinds, in runs, some to full lists and dead ports, are
// listed, tagged, counted, and dropped, as in chunks of one packet. A VLAN comes and goes.
func TestListOfChunksAgreesWithSinglePackets(t *testing.T) {
	for _, tagsByWorkers := range []bool{false, true} {
		t.Run(fmt.Sprintf("tags by workers %v", tagsByWorkers), func(t *testing.T) { testListOfChunks(t, tagsByWorkers) })
	}
}

func testListOfChunks(t *testing.T, tagsByWorkers bool) {
	chunks, six := listWorker(t, tagsByWorkers)
	single, _ := listWorker(t, tagsByWorkers)
	both := []*worker{chunks, single}
	ports := int(chunks.logical.table.Used()) + 3
	c, one := batch.NewChunks(1, benchChunk)[0], batch.NewChunks(1, 1)[0]
	rnd := rand.New(rand.NewPCG(8, 8))
	listed, dropped := 0, 0
	for round := range 2_000 {
		c.N = 1 + rnd.IntN(benchChunk)
		same := rnd.IntN(c.N) // from this packet on, all leave by one port
		last := rnd.IntN(ports)
		runs(rnd, c.N, ports+1, func(i, port int) {
			if i > same {
				port = last
			}
			addr, length := uint32(i*umem.FrameSize+umem.DataOffset), uint16(60+rnd.IntN(1000))
			origin := batch.From(uint16(rnd.IntN(3))).With(batch.Mark(rnd.IntN(16) << 12))
			c.In[i] = batch.Frame{Addr: addr, Len: length, Origin: origin}
			c.Out[i] = batch.ForwardTo(uint16(port), addr-uint32(rnd.IntN(8)), length)
			if port == ports {
				c.Out[i] = batch.DropFor(batch.TooShort)
			}
			for _, w := range both {
				for k := range w.mem[addr-8:][:80] {
					w.mem[int(addr)-8+k] = byte(k * i)
				}
			}
		})
		if round%200 == 0 {
			for _, w := range both {
				if round%400 == 0 {
					w.logical.table.Delete(six, 0, 6)
				} else {
					require.NoError(t, w.logical.table.Add(six, 0, 6))
				}
			}
		}
		free, before := chunks.pool.Len(), 0
		if rnd.IntN(5) == 0 {
			before = len(chunks.tx[0].words) - 20 // the lists have room for 20 packets
		}
		for _, w := range both {
			w.tx[0].n, w.tx[1].n = before, before
		}
		in, out := slices.Clone(c.In[:c.N]), slices.Clone(c.Out[:c.N])
		chunks.dispatch(c)
		for i := range in {
			one.N, one.In[0], one.Out[0] = 1, in[i], out[i]
			single.dispatch(one)
		}
		for p := range 2 {
			got, want := &chunks.tx[p], &single.tx[p]
			if !slices.Equal(got.words[before:got.n], want.words[before:want.n]) || !slices.Equal(got.ports[before:got.n], want.ports[before:want.n]) {
				t.Fatalf("port %d: %x in chunks, %x as single packets", p, got.words[before:got.n], want.words[before:want.n])
			}
			for _, f := range got.frames[before:got.n] {
				if !slices.Equal(chunks.bytes(f), single.bytes(f)) {
					t.Fatalf("port %d sends % x in a chunk, % x as a single packet", p, chunks.bytes(f), single.bytes(f))
				}
			}
			listed += got.n - before
		}
		require.NoError(t, sameCounts(chunks, single))
		if got, want := chunks.stats.originated.Load(), single.stats.originated.Load(); got != want {
			t.Fatalf("%d packets of the router, want %d", got, want)
		}
		got, want := taken(chunks, free), taken(single, free)
		if !slices.Equal(got, want) {
			t.Fatalf("frames %v are free, want %v", got, want)
		}
		dropped += len(got)
		if rnd.IntN(100) == 0 {
			chunks.logical.flush()
			single.logical.flush()
		}
	}
	if listed < 80_000 || dropped < 40_000 {
		t.Errorf("%d packets are listed, %d dropped", listed, dropped)
	}
}
