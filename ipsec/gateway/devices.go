package gateway

import (
	"slices"
	"sync"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/device"
)

// Device has a copy of what packets need of a gateway: keys and policies. Its methods return when the device
// has the change.
type Device interface {
	// Store writes the keys of an SA to an index of the key table. It does not keep k.
	Store(index uint32, k *device.Key)
	// Erase overwrites the keys at an index.
	Erase(index uint32)
	// SetPolicies replaces the policies, both directions at once, by the words of policy.Table.
	SetPolicies(in, out []uint32)
}

// devices are the devices that follow the gateway. Their key tables have the same indexes. SAs are added and
// zeroed by different goroutines, so there is a lock.
type devices struct {
	mu   sync.Mutex
	all  []Device
	used []*ipsec.SA // by index of the key tables; nil: free
	free []uint32    // indexes
}

// Follow writes the keys of all SAs and the policies to a device, and those that are added later before a
// packet uses them. The returned function ends that and overwrites the keys.
func (g *Gateway) Follow(t Device) (unfollow func()) {
	d := &g.devices
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, t)
	for n, s := range d.used {
		if s != nil {
			t.Store(uint32(n), s.DeviceKey())
		}
	}
	r := g.lookup()
	t.SetPolicies(r.in.Words(), r.out.Words())
	return func() { d.remove(t) }
}

func (d *devices) remove(t Device) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = slices.DeleteFunc(d.all, func(x Device) bool { return x == t })
	for n, s := range d.used {
		if s != nil {
			t.Erase(uint32(n))
		}
	}
}

// add assigns an index to an SA and writes its keys to all devices, unless it has one. The index
// is free again when the SA's keys are overwritten: no worker or device uses it any more.
func (d *devices) add(s *ipsec.SA) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.KeyIndex() != ipsec.NoKeyIndex {
		return
	}
	var n uint32
	if last := len(d.free) - 1; last >= 0 {
		n = d.free[last]
		d.free = d.free[:last]
		d.used[n] = s
	} else {
		n = uint32(len(d.used))
		d.used = append(d.used, s)
	}
	for _, t := range d.all {
		t.Store(n, s.DeviceKey())
	}
	s.SetKeyIndex(n, func() { d.erase(n) })
}

func (d *devices) erase(n uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.all {
		t.Erase(n)
	}
	d.used[n] = nil
	d.free = append(d.free, n)
}

// enforce gives the devices the policies of r, and then has the workers use them.
func (d *devices) enforce(r *Ruleset, workers func(*Ruleset)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.all {
		t.SetPolicies(r.in.Words(), r.out.Words())
	}
	workers(r)
}
