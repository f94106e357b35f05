package gpu

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/lookup/trie"
)

// early is a warp's state before the lookup: the generation, and cached first words.
type early struct {
	generation        uint64
	hops, adjacencies [64]uint64
}

// replayed is device memory after patches, by address.
type replayed struct {
	*tables
	words map[cuda.DevicePtr]uint64
}

func (r replayed) make(p patch) {
	for k := range p.Count {
		r.words[p.At.Add(int(k*p.Bytes))] = p.Word
	}
}

func (r replayed) array(a fib.Array, index uint32) uint64 {
	return r.words[r.arrays[a].at.Add(int(index)*int(r.arrays[a].bytes))]
}

func (r replayed) take() *early {
	e := &early{generation: r.words[r.generation.at]}
	for i := range e.hops {
		e.hops[i], e.adjacencies[i] = r.array(fib.NextHops, uint32(i)), r.array(fib.Adjacencies, uint32(i))
	}
	return e
}

// lookup returns the link address of a packet to 10.0.third.64 by a warp with e, and whether it is
// forwarded.
func (r replayed) lookup(e *early, third int) (fib.MAC, bool) {
	at := func(index uint32) uint32 { return uint32(r.words[r.images[0].buffers[0].at.Add(4*int(index))]) }
	word := at(10<<16 | uint32(third))
	if word&trie.Reference != 0 {
		word = at(word&^trie.Reference + 64)
	}
	if word&(1<<trie.NextHopBits-1) == 0 {
		word = at(trie.Default)
	}
	id := word & (1<<trie.NextHopBits - 1)
	hop := fib.NextHop(r.array(fib.NextHops, id))
	if int(id) < len(e.hops) {
		hop = fib.NextHop(e.hops[id])
	}
	adjacency := fib.Adjacency(r.array(fib.Adjacencies, hop.Index()))
	if int(hop.Index()) < len(e.adjacencies) {
		adjacency = fib.Adjacency(e.adjacencies[hop.Index()])
	}
	return adjacency.MAC(), hop.Kind() == fib.KindForward
}

// TestGenerationChangesOnHostFirst: the host knows a generation before the device can complete packets
// with it.
func TestGenerationChangesOnHostFirst(t *testing.T) {
	p := got(newPatcher(&deviceState{}, func() error { return nil }, func([]patch) error { return nil }, func() {}))(t)
	defer p.close()
	tables := &tables{patcher: p}
	turned := make(chan struct{})
	p.mu.Lock() // no patch is queued
	go func() {
		defer close(turned)
		tables.Reuse()
	}()
	for start := time.Now(); tables.queuedGeneration.Load() != 1; time.Sleep(time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Error("the generation is not changed before its patch is queued")
			break
		}
	}
	p.mu.Unlock()
	<-turned
	if added := p.queued.Load(); tables.queuedGeneration.Load() != 1 || added != 1 {
		t.Errorf("generation %d, %d queued patches", tables.queuedGeneration.Load(), added)
	}
}

// TestCachedWordsAreNotMixedWithNewerTables: for any time of caching and of the lookup, the result is
// the route's next hop, the default route's, or a repeated lookup.
func TestCachedWordsAreNotMixedWithNewerTables(t *testing.T) {
	const prefixes, nobodys = 8, 0xff
	var patches []patch
	h, base, rnd := &deviceState{}, fib.New(1), rand.New(rand.NewPCG(1, 1))
	p := got(newPatcher(h, func() error { return nil }, func(batch []patch) error { patches = append(patches, batch...); return nil }, func() {}))(t)
	defer p.close()
	r := replayed{&tables{state: h, patcher: p, generation: word{at: 1 << 40}}, map[cuda.DevicePtr]uint64{}}
	for a := range r.arrays {
		r.arrays[a] = array{cuda.DevicePtr(a+2) << 40, 8}
	}
	for i := range r.images {
		r.images[i] = image{tables: r.tables, pointerAt: cuda.DevicePtr(i+10) << 40}
		for k := range r.images[i].buffers {
			r.images[i].buffers[k] = imageBuffer{at: cuda.DevicePtr(20+2*i+k) << 40, words: wordsIPv4, write: func([]uint32) error { return nil }}
		}
	}
	hop := func(owner int) (uint32, fib.NextHopID) {
		adjacency := got(base.NewAdjacency(0))(t)
		base.SetAdjacency(adjacency, 0, fib.MAC(owner))
		id := got(base.NewNextHop(fib.KindForward, fib.Path{Adjacency: adjacency, Weight: 1}))(t)
		return adjacency, id
	}
	insert := func(prefix netip.Prefix, id fib.NextHopID) {
		require.NoError(t, base.IPv4.Insert(prefix, id))
	}
	insert(netip.MustParsePrefix("0.0.0.0/0"), 1) // before Follow: the image is not replaced later
	base.Follow(r.tables)
	base.IPv4.Follow(&r.images[0])
	r.images[0].active = 0
	if _, id := hop(nobodys); id != 1 {
		t.Fatalf("the first next hop has the number %d", id)
	}
	insert(netip.MustParsePrefix("0.0.0.0/0"), 1)
	var adjacencies [prefixes]uint32
	var ids [prefixes]fib.NextHopID
	p.drain()
	first := len(patches)
	for range 2000 {
		i := rnd.IntN(prefixes)
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i), 64}), 26)
		if ids[i] == 0 {
			adjacencies[i], ids[i] = hop(i + 1)
			insert(prefix, ids[i])
		} else {
			base.IPv4.Delete(prefix)
			base.FreeNextHop(ids[i])
			base.FreeAdjacency(adjacencies[i])
			ids[i] = 0
		}
	}
	p.drain()

	var warps []*early // no repeated lookup yet
	own := 0
	for n, change := range patches {
		r.make(change)
		if n < first {
			continue
		}
		if len(warps) > 0 && warps[0].generation != r.words[r.generation.at] {
			warps = warps[:0]
		}
		warps = append(warps, r.take())
		for _, w := range warps {
			for i := range prefixes {
				switch mac, forwards := r.lookup(w, i); {
				case !forwards || mac != nobodys && mac != fib.MAC(i+1):
					t.Fatalf("after patch %d of %d, a packet of prefix %d is sent to %v (%t)", n, len(patches), i, mac, forwards)
				case mac != nobodys:
					own++
				}
			}
		}
	}
	if own < len(patches) {
		t.Errorf("only %d lookups found their own route in %d patches", own, len(patches))
	}
}

// TestTableWithoutRoomIsNoFault: a table that outgrows its buffers takes the device out by its own cause,
// when it is patched and when it is replaced.
func TestTableWithoutRoomIsNoFault(t *testing.T) {
	for name, grow := range map[string]func(*image){
		"patch":       func(im *image) { im.Patch(trie.Patch{At: 1 << 18, Count: 1, Word: 1}) },
		"replacement": func(im *image) { im.Replace(make([]uint32, 1<<18+1)) },
	} {
		t.Run(name, func(t *testing.T) {
			state := &deviceState{}
			p := got(newPatcher(state, func() error { return nil }, func([]patch) error { return nil }, func() {}))(t)
			defer p.close()
			im := &image{tables: &tables{state: state, patcher: p}, family: "IPv6"}
			for k := range im.buffers {
				im.buffers[k] = imageBuffer{words: 1 << 18, write: func([]uint32) error { return nil }}
			}
			im.Patch(trie.Patch{At: 1<<18 - 1, Count: 1, Word: 1})
			if !state.ok() {
				t.Fatalf("the last word does not fit: %v", state.err())
			}
			grow(im)
			if err := state.err(); err == nil || err.Error() != "IPv6 table of 1 MiB exceeds its 1 MiB on the GPU" || causeOf(err) != CauseTableFull {
				t.Errorf("error %v, cause %s", err, causeOf(err))
			}
		})
	}
}
