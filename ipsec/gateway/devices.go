package gateway

import (
	"sync"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/device"
)

// Holder is a device that has the keys of associations, each at a number.
type Holder interface {
	// Hold has the keys at a number when it returns. It does not keep k.
	Hold(number uint32, k *device.Key)
	// Forget overwrites what is there.
	Forget(number uint32)
}

// holders are the devices, and which numbers they have keys at. Associations end on
// other goroutines than they began, so there is a lock.
type holders struct {
	mu   sync.Mutex
	all  []Holder
	held []*ipsec.SA // by number; nil: free
	free []uint32    // numbers
}

// Follow has a device hold the keys of all associations, those to come before a packet
// meets them, until the function that it returns is called: then its keys have been
// overwritten.
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

// share gives an association a number and its keys to all devices, unless they have it.
// The number is free again when the association's keys are overwritten: then no worker
// uses it, and no device on a worker's behalf.
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
