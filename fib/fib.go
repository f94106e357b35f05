// Package fib is the forwarding information base: the tables that an engine reads to forward
// a packet.
//
//		destination ─► lookup table ─► next hop ─► (group ─►) adjacency ─► port
//
//	  - A lookup table is the main one of its family, or that of the VRF of the ingress port.
//	  - A next hop is the action of a route: a kind (forward, blackhole, ...), an MTU, and the
//	    index of an adjacency or a next-hop group. Routes with the same action share one.
//	  - A next-hop group holds the adjacencies of an ECMP route in Buckets buckets, divided by
//	    weight. The upper 8 bits of the flow hash select the bucket.
//	  - An adjacency is a neighbor: its MAC address, 0 until resolved, and its port.
//	  - A port has the source MAC address and the MTU of an interface, a VLAN or a bond. Its index is
//	    a number that package service assigns.
//
// Each entry is one machine word in an array of fixed size, so a change of an entry is one atomic store. A
// reader, on the CPU or on a device that receives the same stores, sees the old or the new word.
// A resolved neighbor changes one adjacency for all its routes.
//
// One goroutine writes, workers read. The index of a freed entry is reused only after every
// Reader has passed a later epoch (see Reader).
package fib

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/lookup/ipv4"
	"github.com/warproute/warproute/lookup/ipv6"
)

// Capacities. The arrays are reserved at the start and use memory as they fill.
const (
	MaxNextHops    = 1 << 20
	MaxAdjacencies = 1 << 18
	MaxGroups      = 1 << 14
	// Buckets is the number of buckets of a group.
	Buckets = 256
)

// ErrFull is returned if an array has no free entry.
var ErrFull = errors.New("forwarding table full")

// FIB is a forwarding information base. Use New.
type FIB struct {
	IPv4  *ipv4.Table
	IPv6  *ipv6.Table
	VLANs *VLANs
	Bonds *Bonds
	Seed  uint32 // of flow hashes, different per router so that consecutive routers select independently

	nextHops     []uint64           // NextHop words; entry 0 stays KindNone
	groups       []uint32           // Buckets adjacency indices per group
	owners       map[uint32]*owners // of groups, for the writer
	adjacencies  []uint64           // Adjacency words
	ports        []uint64           // Port words, and as many tag words
	ingressWords []uint32           // by port: words of RPF and VRF
	rpfPorts     atomic.Int32       // number of ports with RPF
	vrfPorts     atomic.Int32       // number of ports with a VRF

	hopIDs, groupIDs, adjIDs ids
	vrfIDs                   ids
	readers                  readers
	changes                  atomic.Uint64
	followers                followers
}

// New returns an empty FIB.
func New(seed uint32) *FIB {
	f := &FIB{
		IPv4: ipv4.New(), IPv6: ipv6.New(), Seed: seed,
		nextHops:     make([]uint64, MaxNextHops),
		groups:       make([]uint32, MaxGroups*Buckets),
		owners:       map[uint32]*owners{},
		adjacencies:  make([]uint64, MaxAdjacencies),
		ports:        make([]uint64, 2*batch.MaxPorts),
		ingressWords: make([]uint32, batch.MaxPorts),
	}
	f.VLANs = newVLANs(&f.readers, f.setTag)
	f.Bonds = newBonds(f.VLANs)
	f.hopIDs = ids{next: 1, limit: MaxNextHops, of: "next hops", readers: &f.readers, followers: &f.followers}
	f.groupIDs = ids{limit: MaxGroups, of: "next-hop groups", readers: &f.readers, followers: &f.followers}
	f.vrfIDs = ids{next: 1, limit: MaxVRFs + 1, of: "VRFs", readers: &f.readers, followers: &f.followers}
	f.adjIDs = ids{next: 1, limit: MaxAdjacencies, of: "adjacencies", readers: &f.readers, followers: &f.followers}
	return f
}

// Words holds the arrays for engines. Elements are read and written atomically.
type Words struct {
	NextHops    []uint64
	Groups      []uint32
	Adjacencies []uint64
	Ports       []uint64 // Port words, and as many tag words (Tags)
	Ingress     []uint32
}

// Words returns the arrays, which never move.
func (f *FIB) Words() Words {
	return Words{f.nextHops, f.groups, f.adjacencies, f.ports, f.ingressWords}
}

// Commit ends a batch of changes: it calls MarkChanged and flushes followers.
func (f *FIB) Commit() {
	f.MarkChanged()
	f.followers.flush()
}

// MarkChanged increments Changes, also for a change elsewhere: a follower has applied changes, or a
// gateway has a new SA or path MTU. Any goroutine may call it.
func (f *FIB) MarkChanged() { f.changes.Add(1) }

// Changes returns a number that grows with every batch of changes. When it differs, workers retry
// pending packets, and gateways compute the MTUs of tunnels again.
func (f *FIB) Changes() uint64 { return f.changes.Load() }

// store writes a word and passes it to followers.
func (f *FIB) store(a Array, words []uint64, index uint32, word uint64) {
	atomic.StoreUint64(&words[index], word)
	f.followers.word(a, index, word)
}

// SetPort sets the source MAC address and the MTU of a port, in bytes of IP packet. An MTU of 0
// means that the port is down.
func (f *FIB) SetPort(port uint16, mac MAC, mtu uint16) {
	f.store(Ports, f.ports, uint32(port), uint64(mac)<<MACShift|uint64(mtu))
}

// Port returns the word of a port.
func (f *FIB) Port(port uint16) Port { return Port(atomic.LoadUint64(&f.ports[port])) }

// NewAdjacency adds an unresolved adjacency on a port and returns its index.
func (f *FIB) NewAdjacency(port uint16) (uint32, error) {
	id, err := f.adjIDs.alloc()
	if err == nil {
		f.SetAdjacency(id, port, 0)
	}
	return id, err
}

// SetAdjacency sets the port and the MAC address of an adjacency, 0 for unresolved.
func (f *FIB) SetAdjacency(id uint32, port uint16, mac MAC) {
	word := uint64(mac)<<MACShift | uint64(port)
	if f.Words().Tags().Of(port) != 0 {
		word |= 1 << TaggedShift
	}
	f.store(Adjacencies, f.adjacencies, id, word)
}

// setTag sets the tag word of a port (TagWords), and the flag of its adjacencies that says whether it is 0.
func (f *FIB) setTag(port uint16, tag uint32) {
	if f.Words().Tags().Of(port) == tag {
		return
	}
	f.store(Ports, f.ports, batch.MaxPorts+uint32(port), uint64(tag))
	for id := range f.adjIDs.next {
		if a := f.Adjacency(id); a.Port() == port && a.Tagged() != (tag != 0) {
			f.SetAdjacency(id, port, a.MAC())
		}
	}
}

// Adjacency returns the word of an adjacency.
func (f *FIB) Adjacency(id uint32) Adjacency {
	return Adjacency(atomic.LoadUint64(&f.adjacencies[id]))
}

// FreeAdjacency frees an adjacency that no next hop refers to.
func (f *FIB) FreeAdjacency(id uint32) { f.adjIDs.free(id) }

// Path is one path of a next hop: an adjacency with a weight of at least 1. With KindNoPort it is
// an XFRM interface, by its if_id.
type Path struct {
	Adjacency uint32
	Weight    uint32
	Dead      bool // its buckets go to the live paths until it returns
}

// NewNextHop adds a next hop and returns its index: KindForward with one or more paths, KindNoPort with any
// number of XFRM interfaces, or another kind without paths.
func (f *FIB) NewNextHop(kind Kind, paths ...Path) (NextHopID, error) {
	return f.NewNextHopAfter(0, kind, paths...)
}

// NewNextHopAfter is NewNextHop for routes that used another next hop, old: flows stay on common
// paths as far as the weights permit.
func (f *FIB) NewNextHopAfter(old NextHopID, kind Kind, paths ...Path) (NextHopID, error) {
	id, err := f.hopIDs.alloc()
	if err != nil {
		return 0, err
	}
	was := f.ownersOf(old, kind)
	// The word of the previous entry has a group that is not this entry's.
	f.store(NextHops, f.nextHops, id, 0)
	if err := f.setNextHop(NextHopID(id), was, kind, paths); err != nil {
		f.hopIDs.cancel(id)
		return 0, err
	}
	return NextHopID(id), nil
}

// SetNextHop changes a next hop for all its routes. Flows stay on remaining paths as far as the
// weights permit.
func (f *FIB) SetNextHop(id NextHopID, kind Kind, paths ...Path) error {
	return f.setNextHop(id, f.ownersOf(id, kind), kind, paths)
}

// SetNextHopMTU sets the route MTU of a next hop, in bytes of IP packet; 0, the default, for
// none. SetNextHop keeps it.
func (f *FIB) SetNextHopMTU(id NextHopID, mtu uint16) {
	if w := f.NextHop(id); w.MTU() != mtu {
		f.store(NextHops, f.nextHops, uint32(id), uint64(makeNextHop(w.Kind(), mtu, w.Group(), w.Index())|w&exitMask))
	}
}

// SetExits sets how Linux reaches the destinations of a next hop of KindNoPort, 0 by default. SetNextHop keeps it
// unless the kind changes. It has no effect on next hops of other kinds.
func (f *FIB) SetExits(id NextHopID, exits int) (changed bool) {
	if w := f.NextHop(id); w.Kind() == KindNoPort && w.Exits() != exits {
		f.store(NextHops, f.nextHops, uint32(id), uint64(w&^exitMask|NextHop(exits)<<exitShift))
		return true
	}
	return false
}

// ownersOf returns the bucket owners of a next hop of a kind, nil if it has no paths or is of another kind.
func (f *FIB) ownersOf(id NextHopID, kind Kind) *owners {
	switch w := f.NextHop(id); {
	case w.Kind() != kind || kind != KindForward && !w.OverXFRM():
		return nil
	case w.Group():
		return f.owners[w.Index()]
	default:
		all := &owners{}
		for i := range all {
			all[i] = w.Index()
		}
		return all
	}
}

func (f *FIB) setNextHop(id NextHopID, was *owners, kind Kind, paths []Path) error {
	if kind == KindForward && len(paths) == 0 || len(paths) > 0 && kind != KindForward && kind != KindNoPort {
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
	case old.Group() && old.Kind() == kind: // change buckets in place, so that other flows stay
		f.setBuckets(old.Index(), paths, was)
		return nil
	default:
		g, err := f.groupIDs.alloc()
		if err != nil {
			return err
		}
		f.setBuckets(g, paths, was)
		word = makeNextHop(kind, old.MTU(), true, g)
	}
	if kind == KindNoPort && old.Kind() == KindNoPort {
		word |= old & exitMask
	}
	f.store(NextHops, f.nextHops, uint32(id), uint64(word))
	f.freeGroup(old)
	return nil
}

// freeGroup frees the group of a word, if any.
func (f *FIB) freeGroup(w NextHop) {
	if w.Group() {
		delete(f.owners, w.Index())
		f.groupIDs.free(w.Index())
	}
}

// NextHop returns the word of a next hop.
func (f *FIB) NextHop(id NextHopID) NextHop { return NextHop(atomic.LoadUint64(&f.nextHops[id])) }

// hasPathOver reports whether a forwarding next hop has a path over a port.
func (f *FIB) hasPathOver(w NextHop, port uint16) bool {
	if !w.Group() {
		return f.Adjacency(w.Index()).Port() == port
	}
	last := uint32(0) // not a valid adjacency
	for i := w.Index() * Buckets; i < (w.Index()+1)*Buckets; i++ {
		a := atomic.LoadUint32(&f.groups[i])
		if a != last && f.Adjacency(a).Port() == port {
			return true
		}
		last = a
	}
	return false
}

// FreeNextHop frees a next hop that no route refers to.
func (f *FIB) FreeNextHop(id NextHopID) {
	f.freeGroup(f.NextHop(id))
	f.hopIDs.free(uint32(id))
}

func (f *FIB) setBuckets(group uint32, paths []Path, was *owners) {
	f.owners[group] = divide(paths, was)
	for i, adj := range f.owners[group].buckets(paths) {
		at := group*Buckets + uint32(i)
		if f.groups[at] != adj {
			atomic.StoreUint32(&f.groups[at], adj)
			f.followers.word(Groups, at, uint64(adj))
		}
	}
}
