package fib

import (
	"sync/atomic"

	"github.com/warproute/warproute/batch"
)

// Bonds holds the bonds: logical ports whose frames several physical ports carry, their members. A bond's
// number is one of VLANs.Take, and engines receive frames of any member with it. Workers select the member
// that transmits a frame.
//
//	received:     member ─ Master ─► bond ─ (tags: VLANs.Child ─► VLAN)
//	transmitted:  (VLAN ─ VLANs.Carrier ─►) bond ─ Members, by flow hash ─► member
//
// One goroutine, the writer of the FIB, calls the methods that change entries. Workers read.
type Bonds struct {
	masters []uint32                  // by physical port: number of its bond, 0 for none, since bonds are behind a physical port
	members []atomic.Pointer[Members] // by number: nil for none
	owners  map[uint16]*owners        // by number, for the writer
	vlans   *VLANs
}

// Members are the members of a bond that transmit, at least one.
type Members struct {
	single  bool
	buckets [Buckets]uint16 // physical ports by the upper 8 bits of a flow hash
}

func newBonds(v *VLANs) *Bonds {
	v.bonds = &Bonds{
		masters: make([]uint32, batch.MaxPorts), members: make([]atomic.Pointer[Members], batch.MaxPorts),
		owners: map[uint16]*owners{}, vlans: v,
	}
	return v.bonds
}

// Single reports whether there is one member, which has all flows.
func (m *Members) Single() bool { return m.single }

// Port returns the physical port that transmits a flow.
func (m *Members) Port(hash uint32) uint16 { return m.buckets[hash>>24] }

// Add makes a number of VLANs.Take a bond, without members.
func (b *Bonds) Add(number uint16) {
	atomic.StoreUint64(&b.vlans.carriers[number], uint64(Carrier(number)))
	b.vlans.setTag(number, 0)
}

// Delete deletes a bond and frees its number. Packets that it would transmit from now on are dropped.
func (b *Bonds) Delete(number uint16) {
	for port := range b.masters {
		if b.masters[port] == uint32(number) {
			atomic.StoreUint32(&b.masters[port], 0)
		}
	}
	b.members[number].Store(nil)
	delete(b.owners, number)
	atomic.StoreUint64(&b.vlans.carriers[number], 0)
	b.vlans.Free(number)
}

// SetMaster makes a bond the port of all frames that a physical port receives, until Delete; 0 makes it the port
// of its own frames again.
func (b *Bonds) SetMaster(port, number uint16) {
	atomic.StoreUint32(&b.masters[port], uint32(number))
	if number == 0 {
		return
	}
	atomic.StoreUint32(&b.vlans.tagged[port], 1) // workers look for tags and for the bond in one place
}

// Master returns the bond of a physical port, 0 for none.
func (b *Bonds) Master(port uint16) uint16 { return uint16(atomic.LoadUint32(&b.masters[port])) }

// SetMembers sets the members of a bond, and which of them transmit: those that are not Dead. The Adjacency of a
// path is the physical port. A flow moves only when its member fails or returns, or when members are added or
// removed, and then no more flows than the division requires.
func (b *Bonds) SetMembers(number uint16, members []Path) {
	live := 0
	for _, m := range members {
		if !m.Dead {
			live++
		}
	}
	if len(members) > 0 {
		b.owners[number] = divide(members, b.owners[number])
	}
	if live == 0 {
		b.members[number].Store(nil)
		return
	}
	m := &Members{single: live == 1}
	for i, port := range b.owners[number].buckets(members) {
		m.buckets[i] = uint16(port)
	}
	b.members[number].Store(m)
}

// Members returns the members of a bond that transmit, nil for none.
func (b *Bonds) Members(number uint16) *Members { return b.members[number].Load() }
