package gpu

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/lookup/trie"
)

// early is what a warp takes before it looks up: a snapshot, and copies of the first words.
type early struct {
	turns             uint64
	hops, adjacencies [64]uint64
}

// replayed is a device's memory as patches leave it, by address.
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
	e := &early{turns: r.words[r.turns.at]}
	for i := range e.hops {
		e.hops[i], e.adjacencies[i] = r.array(fib.NextHops, uint32(i)), r.array(fib.Adjacencies, uint32(i))
	}
	return e
}

// lookup returns the link address that a packet to 10.0.third.64 gets from a warp that
// took e earlier, and whether it forwards it at all.
func (r replayed) lookup(e *early, third int) (fib.MAC, bool) {
	at := func(index uint32) uint32 { return uint32(r.words[r.images[0].places[0].at.Add(4*int(index))]) }
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

// The router knows of a turn before the device can: an answer by tables of after it has been
// counted here.
func TestATurnIsCountedBeforeItIsOnItsWay(t *testing.T) {
	p, err := newPatcher(&health{}, func() error { return nil }, func([]patch) error { return nil }, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	tables := &tables{patcher: p}
	turned := make(chan struct{})
	p.mu.Lock() // nothing is put on its way
	go func() {
		defer close(turned)
		tables.Reuse()
	}()
	for start := time.Now(); tables.now.Load() != 1; time.Sleep(time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Error("the turn is not counted before it is on its way")
			break
		}
	}
	p.mu.Unlock()
	<-turned
	if added := p.added.Load(); tables.now.Load() != 1 || added != 1 {
		t.Errorf("turn %d, %d changes on their way", tables.now.Load(), added)
	}
}

// Whenever a warp takes its copies, and whenever later it looks up, it finds a route's own
// next hop or the default route's, or that it has to look again.
func TestCopiesAreNotUsedWithWhatCameLater(t *testing.T) {
	const prefixes, nobodys = 8, 0xff
	var patches []patch
	h, base, rnd := &health{}, fib.New(1), rand.New(rand.NewPCG(1, 1))
	p, err := newPatcher(h, func() error { return nil }, func(batch []patch) error { patches = append(patches, batch...); return nil }, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	r := replayed{&tables{health: h, patcher: p, turns: word{at: 1 << 40}}, map[cuda.DevicePtr]uint64{}}
	for a := range r.arrays {
		r.arrays[a] = array{cuda.DevicePtr(a+2) << 40, 8}
	}
	for i := range r.images {
		r.images[i] = image{tables: r.tables, root: cuda.DevicePtr(i+10) << 40}
		for k := range r.images[i].places {
			r.images[i].places[k] = imagePlace{at: cuda.DevicePtr(20+2*i+k) << 40, words: wordsIPv4, write: func([]uint32) error { return nil }}
		}
	}
	hop := func(owner int) (uint32, fib.ID) {
		adjacency, err := base.NewAdjacency(0)
		if err != nil {
			t.Fatal(err)
		}
		base.SetAdjacency(adjacency, 0, fib.MAC(owner))
		id, err := base.NewNextHop(fib.KindForward, fib.Path{Adjacency: adjacency, Weight: 1})
		if err != nil {
			t.Fatal(err)
		}
		return adjacency, id
	}
	insert := func(prefix netip.Prefix, id fib.ID) {
		if err := base.IPv4.Insert(prefix, id); err != nil {
			t.Fatal(err)
		}
	}
	insert(netip.MustParsePrefix("0.0.0.0/0"), 1) // before anybody follows: the image is not replaced any more
	base.Follow(r.tables)
	base.IPv4.Follow(&r.images[0])
	r.images[0].active = 0
	if _, id := hop(nobodys); id != 1 {
		t.Fatalf("the first next hop has the number %d", id)
	}
	insert(netip.MustParsePrefix("0.0.0.0/0"), 1)
	var adjacencies [prefixes]uint32
	var ids [prefixes]fib.ID
	p.settle()
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
	p.settle()

	var warps []*early // that need not look again yet
	own := 0
	for n, change := range patches {
		r.make(change)
		if n < first {
			continue
		}
		if len(warps) > 0 && warps[0].turns != r.words[r.turns.at] {
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
