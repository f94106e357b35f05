// Package fib is the forwarding base: everything that an engine reads to decide
// on a packet, and nothing else.
//
// The way of a lookup is table → next hop → (group →) adjacency → port. Every
// step is one machine word in an array of fixed size, so a change is one atomic
// store: a reader, on the CPU or on a device that is sent the same stores, sees
// the old or the new word and never a mixture. A neighbour that answers changes
// one adjacency, however many routes use it.
//
// One goroutine, the control plane's, writes; workers read. An entry that is
// freed may still be in a worker's hands, so its number is used again only after
// every Reader has moved on (see Reader).
package fib

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/lookup/ipv4"
	"github.com/warproute/warproute/lookup/ipv6"
)

// Capacities. The arrays are reserved at once and cost memory as they fill.
const (
	MaxNextHops    = 1 << 20
	MaxAdjacencies = 1 << 18
	MaxGroups      = 1 << 14
	// Buckets is the number of adjacencies in a group; a flow picks one by the
	// upper 8 bits of its hash.
	Buckets = 256
)

// ErrFull is wrapped by errors of an array that has no free entry.
var ErrFull = errors.New("forwarding base is full")

// FIB is a forwarding base. Its zero value is not usable; see New.
type FIB struct {
	IPv4 *ipv4.Table
	IPv6 *ipv6.Table
	Seed uint32 // of flow hashes, so that routers in a row choose independently

	nextHops     []uint64           // NextHop words; entry 0 stays KindNone
	groups       []uint32           // Buckets adjacency numbers a group
	shares       map[uint32]*shares // of groups, for the writer alone
	adjacencies  []uint64           // Adjacency words
	ports        []uint64           // Port words
	reversePaths []uint32           // by port: Sources words
	verifying    atomic.Int32       // how many of them are not 0

	hopIDs, groupIDs, adjIDs ids
	readers                  readers
	generation               atomic.Uint64
	followers                followers
}

// New returns an empty base.
func New(seed uint32) *FIB {
	f := &FIB{
		IPv4: ipv4.New(), IPv6: ipv6.New(), Seed: seed,
		nextHops:     make([]uint64, MaxNextHops),
		groups:       make([]uint32, MaxGroups*Buckets),
		shares:       map[uint32]*shares{},
		adjacencies:  make([]uint64, MaxAdjacencies),
		ports:        make([]uint64, batch.MaxPorts),
		reversePaths: make([]uint32, batch.MaxPorts),
	}
	f.hopIDs = ids{next: 1, limit: MaxNextHops, of: "next hops", readers: &f.readers, followers: &f.followers}
	f.groupIDs = ids{limit: MaxGroups, of: "next-hop groups", readers: &f.readers, followers: &f.followers}
	f.adjIDs = ids{next: 1, limit: MaxAdjacencies, of: "adjacencies", readers: &f.readers, followers: &f.followers}
	return f
}

// Words are the arrays an engine walks; elements are read and written atomically.
type Words struct {
	NextHops     []uint64
	Groups       []uint32
	Adjacencies  []uint64
	Ports        []uint64
	ReversePaths []uint32
}

// Words returns the arrays. They keep their place for the life of the base.
func (f *FIB) Words() Words {
	return Words{f.nextHops, f.groups, f.adjacencies, f.ports, f.reversePaths}
}

// Generation counts changes that may let a waiting packet go on: neighbours
// resolved, routes changed, security associations. Workers try held packets again when
// it moves.
func (f *FIB) Generation() uint64 { return f.generation.Load() }

// Bump moves the generation; the control plane calls it after a batch of changes.
func (f *FIB) Bump() {
	f.Retry()
	f.followers.flush()
}

// Retry moves the generation, when a follower's copy has changes that Bump was early
// for, or a gateway has an association that packets may wait for. Any goroutine may
// call it.
func (f *FIB) Retry() { f.generation.Add(1) }

// store changes a word, for readers and for followers.
func (f *FIB) store(a Array, words []uint64, index uint32, word uint64) {
	atomic.StoreUint64(&words[index], word)
	f.followers.word(a, index, word)
}

// SetPort says that frames leave by the port with this source address and MTU,
// in bytes of IP packet; an MTU of 0 takes the port down.
func (f *FIB) SetPort(port uint16, mac MAC, mtu uint16) {
	f.store(Ports, f.ports, uint32(port), uint64(mac)<<16|uint64(mtu))
}

// Port returns a port's word.
func (f *FIB) Port(port uint16) Port { return Port(atomic.LoadUint64(&f.ports[port])) }

// NewAdjacency returns the number of a new, unresolved adjacency on a port.
func (f *FIB) NewAdjacency(port uint16) (uint32, error) {
	id, err := f.adjIDs.take()
	if err == nil {
		f.SetAdjacency(id, port, 0)
	}
	return id, err
}

// SetAdjacency gives an adjacency its neighbour's address, 0 to mark it unresolved.
func (f *FIB) SetAdjacency(id uint32, port uint16, mac MAC) {
	f.store(Adjacencies, f.adjacencies, id, uint64(mac)<<16|uint64(port))
}

// Adjacency returns an adjacency's word.
func (f *FIB) Adjacency(id uint32) Adjacency {
	return Adjacency(atomic.LoadUint64(&f.adjacencies[id]))
}

// FreeAdjacency gives a number back, once no next hop refers to it any more.
func (f *FIB) FreeAdjacency(id uint32) { f.adjIDs.free(id) }

// Path is one way of a next hop: an adjacency with a weight of at least 1.
type Path struct {
	Adjacency uint32
	Weight    uint32
	Dead      bool // keeps its share of the buckets, which the living paths fill
}

// NewNextHop returns the number of a new next hop: KindForward over one or more
// paths, or another kind with none.
func (f *FIB) NewNextHop(kind Kind, paths ...Path) (ID, error) {
	return f.NewNextHopAfter(0, kind, paths...)
}

// NewNextHopAfter is NewNextHop for a next hop that routes take up which had another one,
// old: flows stay on the paths that both have, as far as their weights permit.
func (f *FIB) NewNextHopAfter(old ID, kind Kind, paths ...Path) (ID, error) {
	id, err := f.hopIDs.take()
	if err != nil {
		return 0, err
	}
	was := f.sharesOf(f.NextHop(old))
	// Whoever had the number before left a word whose group is no longer its own.
	f.store(NextHops, f.nextHops, id, 0)
	if err := f.setNextHop(ID(id), was, kind, paths); err != nil {
		f.hopIDs.untake(id)
		return 0, err
	}
	return ID(id), nil
}

// SetNextHop changes a next hop for all the routes that use it. Flows stay on the paths
// that it keeps, as far as their weights permit.
func (f *FIB) SetNextHop(id ID, kind Kind, paths ...Path) error {
	return f.setNextHop(id, f.sharesOf(f.NextHop(id)), kind, paths)
}

// SetNextHopMTU bounds the packets that a next hop takes, in bytes of IP packet, whatever
// its ports' MTUs are; 0 does not. It holds through SetNextHop. A new next hop has none.
func (f *FIB) SetNextHopMTU(id ID, mtu uint16) {
	if w := f.NextHop(id); w.MTU() != mtu {
		f.store(NextHops, f.nextHops, uint32(id), uint64(makeNextHop(w.Kind(), mtu, w.Group(), w.Index())))
	}
}

// sharesOf returns whose a next hop's flows are, nil if it does not forward any.
func (f *FIB) sharesOf(w NextHop) *shares {
	switch {
	case w.Kind() != KindForward:
		return nil
	case w.Group():
		return f.shares[w.Index()]
	}
	all := &shares{}
	for i := range all {
		all[i] = w.Index()
	}
	return all
}

func (f *FIB) setNextHop(id ID, was *shares, kind Kind, paths []Path) error {
	if (kind == KindForward) != (len(paths) > 0) {
		return fmt.Errorf("next hop %d: %d paths for kind %q", id, len(paths), kind)
	}
	old := f.NextHop(id)
	var word NextHop
	switch {
	case len(paths) <= 1:
		word = makeNextHop(kind, old.MTU(), false, 0)
		if len(paths) == 1 {
			word = makeNextHop(kind, old.MTU(), false, paths[0].Adjacency)
		}
	case old.Group(): // the group's buckets change one by one; other flows stay where they are
		f.setBuckets(old.Index(), paths, was)
		return nil
	default:
		g, err := f.groupIDs.take()
		if err != nil {
			return err
		}
		f.setBuckets(g, paths, was)
		word = makeNextHop(kind, old.MTU(), true, g)
	}
	f.store(NextHops, f.nextHops, uint32(id), uint64(word))
	f.freeGroup(old)
	return nil
}

// freeGroup gives back the group of a next hop's former word, if it had one.
func (f *FIB) freeGroup(w NextHop) {
	if w.Group() {
		delete(f.shares, w.Index())
		f.groupIDs.free(w.Index())
	}
}

// NextHop returns a next hop's word.
func (f *FIB) NextHop(id ID) NextHop { return NextHop(atomic.LoadUint64(&f.nextHops[id])) }

// LeadsBy reports whether flows may take a port by a next hop that forwards.
func (f *FIB) LeadsBy(w NextHop, port uint16) bool {
	if !w.Group() {
		return f.Adjacency(w.Index()).Port() == port
	}
	last := uint32(0) // no adjacency's number
	for i := w.Index() * Buckets; i < (w.Index()+1)*Buckets; i++ {
		a := atomic.LoadUint32(&f.groups[i])
		if a != last && f.Adjacency(a).Port() == port {
			return true
		}
		last = a
	}
	return false
}

// FreeNextHop gives a number back, once no route refers to it any more.
func (f *FIB) FreeNextHop(id ID) {
	f.freeGroup(f.NextHop(id))
	f.hopIDs.free(uint32(id))
}

func (f *FIB) setBuckets(group uint32, paths []Path, was *shares) {
	f.shares[group] = share(paths, was)
	for i, adj := range f.shares[group].buckets(paths) {
		at := group*Buckets + uint32(i)
		if f.groups[at] != adj {
			atomic.StoreUint32(&f.groups[at], adj)
			f.followers.word(Groups, at, uint64(adj))
		}
	}
}
