package ipsec

import (
	"math"

	"github.com/warproute/warproute/ipsec/device"
)

// NoNumber is the number of an SA whose keys no device has.
const NoNumber = math.MaxUint32

// Number returns the index of the SA's keys in the key tables of devices, or NoNumber.
func (s *SA) Number() uint32 { return s.number.Load() - 1 }

// Share records the index of the SA's keys on devices. Zero calls forget. Share and Zero are
// called by one goroutine.
func (s *SA) Share(number uint32, forget func()) {
	s.forget = forget
	s.number.Store(number + 1)
}

// DeviceKey returns the keys in the devices' format. It is not a copy: Zero overwrites it.
func (s *SA) DeviceKey() *device.Key { return s.key }

// DeviceKeyUsed returns the length of the key's prefix that a device needs for esp bytes of ESP.
// Key material with one line per block is included for as many blocks as fit.
func (s *SA) DeviceKeyUsed(esp int) int {
	return device.LineBytes * min(int(s.keyMost), int(s.keyFixed)+esp/device.LineBytes)
}

// zeroCopies overwrites the keys on devices, and their source.
func (s *SA) zeroCopies() {
	if s.forget != nil {
		s.forget()
		s.forget = nil
	}
	s.number.Store(0)
	s.key.Zero()
}
