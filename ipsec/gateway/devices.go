package gateway

import (
	"slices"
	"sync"
	"sync/atomic"

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
	// AddSPI makes the device find the SA with keys at an index for received packets; RemoveSPI ends that, not
	// later than Erase of the index.
	AddSPI(spi, index uint32)
	RemoveSPI(spi, index uint32)
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

	withSPI map[*ipsec.SA]bool // SAs that devices find by SPI
	byKey   keyPages

	changes atomic.Uint64 // of byKey
}

// keyPages hold the SAs by index of the key tables, nil for none. Workers read them.
type keyPages [MaxKeys / pageSize]atomic.Pointer[[pageSize]atomic.Pointer[ipsec.SA]]

// MaxKeys is the largest size of a key table.
const MaxKeys = 1 << 15

// KeyChanges returns the number of changes of what ByKey returns.
func (g *Gateway) KeyChanges() uint64 { return g.devices.changes.Load() }

// ByKey returns the SA with keys at an index of the key tables, or nil.
func (g *Gateway) ByKey(index uint32) *ipsec.SA {
	if index >= MaxKeys {
		return nil
	}
	if page := g.devices.byKey[index/pageSize].Load(); page != nil {
		return page[index%pageSize].Load()
	}
	return nil
}

func (p *keyPages) set(index uint32, s *ipsec.SA) {
	if index >= MaxKeys {
		return
	}
	page := p[index/pageSize].Load()
	if page == nil {
		page = new([pageSize]atomic.Pointer[ipsec.SA])
		p[index/pageSize].Store(page)
	}
	page[index%pageSize].Store(s)
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
	for s := range d.withSPI {
		t.AddSPI(s.Config().SPI, s.KeyIndex())
	}
	r := g.lookup()
	t.SetPolicies(r.in.Words(), r.out.Words())
	return func() { d.remove(t) }
}

func (d *devices) remove(t Device) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = slices.DeleteFunc(d.all, func(x Device) bool { return x == t })
	for s := range d.withSPI {
		t.RemoveSPI(s.Config().SPI, s.KeyIndex())
	}
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
	d.byKey.set(n, s)
	d.changes.Add(1)
	s.PutNonceBase()
	for _, t := range d.all {
		t.Store(n, s.DeviceKey())
	}
	s.SetKeyIndex(n, func() { d.erase(n) })
}

// addSPI makes the devices find an inbound SA that workers find.
func (d *devices) addSPI(s *ipsec.SA) {
	if !s.FoundByDevices() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.withSPI == nil {
		d.withSPI = map[*ipsec.SA]bool{}
	}
	d.withSPI[s] = true
	for _, t := range d.all {
		t.AddSPI(s.Config().SPI, s.KeyIndex())
	}
}

// removeSPI ends the effect of addSPI.
func (d *devices) removeSPI(s *ipsec.SA) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.withSPI[s] {
		return
	}
	delete(d.withSPI, s)
	for _, t := range d.all {
		t.RemoveSPI(s.Config().SPI, s.KeyIndex())
	}
}

func (d *devices) erase(n uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.all {
		t.Erase(n)
	}
	d.used[n] = nil
	d.byKey.set(n, nil)
	d.changes.Add(1)
	d.free = append(d.free, n)
}

// RenewNonces draws another base of nonces, and gives it to the devices. Until a device has it, the host writes
// nonces.
func (g *Gateway) RenewNonces() {
	g.devices.mu.Lock()
	defer g.devices.mu.Unlock()
	g.Nonces.Renew()
	for _, s := range g.devices.used {
		if s != nil {
			s.EndLoan() // devices have the old base
		}
	}
	g.putNonceBase()
}

// PutNonceBase gives the devices the current base of nonces, if it was set after SAs were added (Nonces.Use).
func (g *Gateway) PutNonceBase() {
	g.devices.mu.Lock()
	defer g.devices.mu.Unlock()
	g.putNonceBase()
}

// putNonceBase gives the devices the current base. The caller holds the lock of the devices, so that nothing else renews it.
func (g *Gateway) putNonceBase() {
	d, base := &g.devices, g.Nonces.Base()
	for n, s := range d.used {
		if s == nil || s.Direction() == ipsec.In {
			continue
		}
		s.PutNonceBase()
		for _, t := range d.all {
			t.Store(uint32(n), s.DeviceKey())
		}
	}
	g.Nonces.SetDeviceBase(base)
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
