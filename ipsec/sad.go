package ipsec

import (
	"fmt"
	"math/bits"
	"net/netip"
	"sync/atomic"

	"github.com/warproute/warproute/internal/prefetch"
)

// SAD is the security association database for inbound packets: it finds SAs by SPI and destination
// address (RFC 4301 section 4.1). One goroutine at a time changes it, and workers read it without a
// lock: they see the state before or after a change. The zero SAD is empty.
type SAD struct {
	table atomic.Pointer[table]
	count int // SAs
	used  int // slots, removed ones included
}

// table is an open-addressing hash table. Its size is a power of two, and at most half of the slots
// are used, so every search ends at an empty one.
type table struct {
	slots []atomic.Pointer[SA]
	shift int // of a 64-bit hash
}

// removed marks the slot of a removed SA, so that searches continue behind it.
var removed = new(SA)

const smallest = 16 // slots

func newTable(slots int) *table {
	return &table{slots: make([]atomic.Pointer[SA], slots), shift: 64 - bits.Len(uint(slots-1))}
}

// slot returns the first slot for an SPI. Multiplication by 2^64 over the golden ratio spreads
// consecutive SPIs (Fibonacci hashing).
func (t *table) slot(spi uint32) int { return int(uint64(spi) * 0x9e3779b97f4a7c15 >> t.shift) }

// Lookup returns the SA, or nil.
func (d *SAD) Lookup(spi uint32, dst netip.Addr) *SA {
	t := d.table.Load()
	if t == nil {
		return nil
	}
	for i := t.slot(spi); ; i = (i + 1) & (len(t.slots) - 1) {
		s := t.slots[i].Load()
		if s == nil || s.spi == spi && s.dst == dst && s != removed {
			return s
		}
	}
}

// Prefetch prefetches the SAs of packets with some SPIs, MaxPrefetch at most, for Lookup and Find.
func (d *SAD) Prefetch(spis []uint32) {
	t := d.table.Load()
	if t == nil {
		return
	}
	var sas [MaxPrefetch]*SA
	for i, spi := range spis {
		sas[i] = t.slots[t.slot(spi)].Load() // nearly always the right one; the cache misses overlap
	}
	prefetch.Read(sas[:len(spis)], 0)
	prefetch.Read(sas[:len(spis)], linePair/2)
}

// Add inserts an SA. Its SPI and address must be new.
func (d *SAD) Add(s *SA) error {
	if s.direction != In {
		return fmt.Errorf("adding security association %s: it is for sending, and only received packets look one up", s.c.label())
	}
	if other := d.Lookup(s.spi, s.dst); other != nil {
		return fmt.Errorf("adding security association %s: %s has its SPI and destination, %v", s.c.label(), other.c.label(), s.dst)
	}
	t := d.table.Load()
	if t == nil || (d.used+1)*2 > len(t.slots) {
		t = d.rebuild()
	}
	d.insert(t, s)
	d.count++
	return nil
}

// insert puts s into the first empty slot.
func (d *SAD) insert(t *table, s *SA) {
	i := t.slot(s.spi)
	for t.slots[i].Load() != nil {
		i = (i + 1) & (len(t.slots) - 1)
	}
	t.slots[i].Store(s)
	d.used++
}

// rebuild publishes a table without removed slots, with room for one more.
func (d *SAD) rebuild() *table {
	slots := smallest
	for slots < 4*(d.count+1) {
		slots *= 2
	}
	t := newTable(slots)
	d.used = 0
	for s := range d.All {
		d.insert(t, s)
	}
	d.table.Store(t)
	return t
}

// Remove removes an SA and reports whether it was there. Workers may use it until the end of their
// batch.
func (d *SAD) Remove(s *SA) bool {
	t := d.table.Load()
	if t == nil {
		return false
	}
	for i := t.slot(s.spi); ; i = (i + 1) & (len(t.slots) - 1) {
		switch t.slots[i].Load() {
		case nil:
			return false
		case s:
			t.slots[i].Store(removed)
			d.count--
			return true
		}
	}
}

// Len returns the number of SAs.
func (d *SAD) Len() int { return d.count }

// All calls yield with every SA, in no order, until it returns false. It is for the goroutine that
// changes the SAD.
func (d *SAD) All(yield func(*SA) bool) {
	t := d.table.Load()
	if t == nil {
		return
	}
	for i := range t.slots {
		if s := t.slots[i].Load(); s != nil && s != removed && !yield(s) {
			return
		}
	}
}
