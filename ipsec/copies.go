package ipsec

import (
	"math"
	"sync/atomic"

	"github.com/warproute/warproute/ipsec/device"
)

// NoNumber is the number of an association of which no device has the keys.
const NoNumber = math.MaxUint32

// copies are the keys of an association as devices want them, and where they have them.
type copies struct {
	key    *device.Key
	used   int           // bytes of it
	number atomic.Uint32 // 1 more than Number
	free   func()        // overwrites what devices have; nil: nothing
}

// Number is where devices have the association's keys, NoNumber if they do not.
func (s *SA) Number() uint32 { return s.copies.number.Load() - 1 }

// Share tells that devices have the association's keys at a number, until Zero, which
// calls free. It is for one goroutine, which comes before that of Zero.
func (s *SA) Share(number uint32, free func()) {
	s.copies.free = free
	s.copies.number.Store(number + 1)
}

// DeviceKey returns the keys as devices want them: what Zero overwrites, not a copy.
func (s *SA) DeviceKey() *device.Key { return s.copies.key }

// DeviceKeyUsed returns how many bytes of the key, from its beginning on, a device needs.
func (s *SA) DeviceKeyUsed() int { return s.copies.used }

func (c *copies) zero() {
	if c.free != nil {
		c.free()
		c.free = nil
	}
	c.number.Store(0)
	c.key.Zero()
}
