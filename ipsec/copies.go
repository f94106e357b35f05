package ipsec

import (
	"math"

	"github.com/warproute/warproute/ipsec/device"
	"github.com/warproute/warproute/packet"
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

// describeHeaders completes the key record by what devices need of headers.
func (s *SA) describeHeaders(c *Config) {
	var encap Encap
	if c.Encap != nil {
		encap = *c.Encap
	}
	s.key.SetHeaders(c.Src, c.Dst, c.Encap != nil, encap.SrcPort, encap.DstPort)
	if c.Direction == Out {
		s.key.SetOutbound(c.SPI, [...]uint32{CopyDF: device.HeadersCopyDF, SetDF: device.HeadersSetDF, ClearDF: 0}[c.DF])
	}
}

// FoundByDevices reports whether devices find the SA of a received packet by themselves: in tunnel mode, as the
// upper half of 64-bit sequence numbers follows from the window.
func (s *SA) FoundByDevices() bool { return s.direction == In && s.mode == Tunnel && !s.extended }

// InboundESP returns the place of ESP in packets that devices find the SA of: the length of the IP header, the
// offset of the SPI, and the smallest length of ESP. All are in bytes.
func (s *SA) InboundESP() (ip, esp, least int) {
	ip = packet.IPv4Len
	if s.dst.Is6() {
		ip = packet.IPv6Len
	}
	return ip, ip + int(s.udp), espLen + int(s.iv) + trailerLen + int(s.icv)
}

// Usable returns the reason why packets are refused in a direction, or OK.
func (s *SA) Usable(as Direction) Error {
	if s.ready(as) {
		return OK
	}
	return s.usable(as)
}

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
