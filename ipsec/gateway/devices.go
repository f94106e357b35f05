package gateway

import (
	"sync"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/device"
)

// Holder is a device with a key table.
type Holder interface {
	// Hold stores the keys at an index of the table before it returns. It does not keep k.
	Hold(number uint32, k *device.Key)
	// Forget overwrites the keys at an index.
	Forget(number uint32)
}

// holders are the devices and the used indexes of their key tables. SAs are added and zeroed by
// different goroutines, so there is a lock.
type holders struct {
	mu   sync.Mutex
	all  []Holder
	held []*ipsec.SA // by index; nil: free
	free []uint32    // indexes
}

// Follow stores the keys of all SAs on a device, also of SAs that are added later, before a packet
// meets them. The returned function ends that; then the device's keys have been overwritten.
func (g *Gateway) Follow(h Holder) (unfollow func()) {
	k := &g.holders
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, h)
	for n, s := range k.held {
		if s != nil {
			h.Hold(uint32(n), s.DeviceKey())
		}
	}
	return func() { k.remove(h) }
}

func (k *holders) remove(h Holder) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.all {
		if k.all[i] == h {
			k.all = append(k.all[:i:i], k.all[i+1:]...)
			break
		}
	}
	for n, s := range k.held {
		if s != nil {
			h.Forget(uint32(n))
		}
	}
}

// share assigns an index to an SA and stores its keys on all devices, unless it has one. The index
// is free again when the SA's keys are overwritten: no worker or device uses it any more.
func (k *holders) share(s *ipsec.SA) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.Number() != ipsec.NoNumber {
		return
	}
	var n uint32
	if last := len(k.free) - 1; last >= 0 {
		n = k.free[last]
		k.free = k.free[:last]
		k.held[n] = s
	} else {
		n = uint32(len(k.held))
		k.held = append(k.held, s)
	}
	for _, h := range k.all {
		h.Hold(n, s.DeviceKey())
	}
	s.Share(n, func() { k.forget(n) })
}

func (k *holders) forget(n uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.all {
		h.Forget(n)
	}
	k.held[n] = nil
	k.free = append(k.free, n)
}
