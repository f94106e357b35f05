package ipsec

import (
	"math"

	"github.com/warproute/warproute/ipsec/device"
)

// NoNumber is the number of an association of which no device has the keys.
const NoNumber = math.MaxUint32

// Number is where devices have the association's keys, NoNumber if they do not.
func (s *SA) Number() uint32 { return s.number.Load() - 1 }

// Share tells that devices have the association's keys at a number, until Zero, which
// calls forget. It is for one goroutine, which comes before that of Zero.
func (s *SA) Share(number uint32, forget func()) {
	s.forget = forget
	s.number.Store(number + 1)
}

// DeviceKey returns the keys as devices want them: what Zero overwrites, not a copy.
func (s *SA) DeviceKey() *device.Key { return s.key }

// DeviceKeyUsed returns how many bytes of the key, from its beginning on, a device needs for a
// packet of so many bytes of ESP: of what there is a line of for each block, as many as fit, which
// is one more than its text has at least.
func (s *SA) DeviceKeyUsed(esp int) int {
	return device.LineBytes * min(int(s.keyMost), int(s.keyFixed)+esp/device.LineBytes)
}

// zeroCopies overwrites the keys that devices have, and what they have them of.
func (s *SA) zeroCopies() {
	if s.forget != nil {
		s.forget()
		s.forget = nil
	}
	s.number.Store(0)
	s.key.Zero()
}
