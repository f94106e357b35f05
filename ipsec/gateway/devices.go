package gateway

import (
	"slices"
	"sync"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/device"
)

// KeyTable is the key table of a device.
type KeyTable interface {
	// Store writes the keys to an index of the table before it returns. It does not keep k.
	Store(index uint32, k *device.Key)
	// Erase overwrites the keys at an index.
	Erase(index uint32)
}

// keyTables are the key tables of all devices, which have the same indexes. SAs are added and
// zeroed by different goroutines, so there is a lock.
type keyTables struct {
	mu   sync.Mutex
	all  []KeyTable
	used []*ipsec.SA // by index; nil: free
	free []uint32    // indexes
}

// Follow writes the keys of all SAs to a device's key table, and those of SAs that are added later
// before a packet uses them. The returned function ends that and overwrites the keys.
func (g *Gateway) Follow(t KeyTable) (unfollow func()) {
	k := &g.keyTables
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, t)
	for n, s := range k.used {
		if s != nil {
			t.Store(uint32(n), s.DeviceKey())
		}
	}
	return func() { k.remove(t) }
}

func (k *keyTables) remove(t KeyTable) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = slices.DeleteFunc(k.all, func(x KeyTable) bool { return x == t })
	for n, s := range k.used {
		if s != nil {
			t.Erase(uint32(n))
		}
	}
}

// add assigns an index to an SA and writes its keys to all devices, unless it has one. The index
// is free again when the SA's keys are overwritten: no worker or device uses it any more.
func (k *keyTables) add(s *ipsec.SA) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.KeyIndex() != ipsec.NoKeyIndex {
		return
	}
	var n uint32
	if last := len(k.free) - 1; last >= 0 {
		n = k.free[last]
		k.free = k.free[:last]
		k.used[n] = s
	} else {
		n = uint32(len(k.used))
		k.used = append(k.used, s)
	}
	for _, t := range k.all {
		t.Store(n, s.DeviceKey())
	}
	s.SetKeyIndex(n, func() { k.erase(n) })
}

func (k *keyTables) erase(n uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, t := range k.all {
		t.Erase(n)
	}
	k.used[n] = nil
	k.free = append(k.free, n)
}
