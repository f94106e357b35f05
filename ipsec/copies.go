package ipsec

import (
	"math"

	"github.com/warproute/warproute/ipsec/device"
)

// NoKeyIndex is the key index of an SA whose keys are on no device.
const NoKeyIndex = math.MaxUint32

// KeyIndex returns the index of the SA's keys in the key tables of devices, or NoKeyIndex.
func (s *SA) KeyIndex() uint32 { return s.keyIndex.Load() - 1 }

// SetKeyIndex records the index of the SA's keys in the key tables of devices. Zero calls erase.
// SetKeyIndex and Zero are called by one goroutine.
func (s *SA) SetKeyIndex(index uint32, erase func()) {
	s.erase = erase
	s.keyIndex.Store(index + 1)
}

// DeviceKey returns the keys in the devices' format. It is not a copy: Zero overwrites it.
func (s *SA) DeviceKey() *device.Key { return s.key }

// DeviceKeyUsed returns the length in bytes of the key's prefix that a device needs for esp bytes of
// ESP. Of the powers of GHASH's key it includes one per block.
func (s *SA) DeviceKeyUsed(esp int) int {
	return device.SegmentBytes * min(int(s.keyMost), int(s.keyFixed)+esp/device.SegmentBytes)
}

// zeroCopies overwrites the keys on devices, and their source.
func (s *SA) zeroCopies() {
	if s.erase != nil {
		s.erase()
		s.erase = nil
	}
	s.keyIndex.Store(0)
	s.key.Zero()
}
