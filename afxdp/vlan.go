package afxdp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// MaxVLANs is the maximum number of VLANs of all ports together.
const MaxVLANs = 4096

// VLANKey identifies a VLAN by a tag on a port.
type VLANKey struct {
	Parent uint16 // index of a port, or number of the outer VLAN
	Tag    uint16 // VID, and bit 12 for 802.1ad
}

// SetVLAN has the programs redirect the frames of a VLAN to sockets, except host traffic, as those of
// the port. Frames keep their tags. port is the index of the port, and number the Parent of inner VLANs. An
// existing VLAN is replaced.
func (s *Set) SetVLAN(port int, k VLANKey, number uint16, mac [6]byte) error {
	var value [16]byte
	copy(value[:], mac[:])
	binary.NativeEndian.PutUint32(value[8:], uint32(number))
	err := s.withVLANs(func(m *ebpf.Map) error {
		p := s.Ports[port]
		if p == nil || p.program == nil {
			return errClosed
		}
		if err := p.program.HasVlans.Set(uint32(1)); err != nil {
			return err
		}
		return m.Put(k, value)
	})
	if errors.Is(err, unix.E2BIG) {
		err = fmt.Errorf("the XDP program's map has all %d VLANs: delete others", MaxVLANs)
	}
	if err != nil {
		return fmt.Errorf("add VLAN %d to port %d: %w", k.Tag&0xfff, k.Parent, err)
	}
	return nil
}

// DeleteVLAN passes the frames of a VLAN to Linux, or drops them on a gateway. Deleting an unknown VLAN is
// no error.
func (s *Set) DeleteVLAN(k VLANKey) error {
	err := s.withVLANs(func(m *ebpf.Map) error { return m.Delete(k) })
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("delete VLAN %d of port %d: %w", k.Tag&0xfff, k.Parent, err)
	}
	return nil
}

// withVLANs calls f with the map that all ports share.
func (s *Set) withVLANs(f func(*ebpf.Map) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared == nil {
		return errClosed
	}
	return f(s.shared.Vlans)
}

// AddMAC has the programs take frames to a MAC address as those to the MAC address of a port: the index of a
// port, or the number of a VLAN.
func (s *Set) AddMAC(port uint16, mac [6]byte) error {
	err := s.withMACs(func(m *ebpf.Map) error { return m.Put(macKey(port, mac), uint8(1)) })
	if errors.Is(err, unix.E2BIG) {
		err = errors.New("the XDP program's map of MAC addresses is full")
	}
	if err != nil {
		return fmt.Errorf("add MAC address %x to port %d: %w", mac, port, err)
	}
	return nil
}

// DeleteMAC undoes AddMAC. Deleting an unknown address is no error.
func (s *Set) DeleteMAC(port uint16, mac [6]byte) error {
	err := s.withMACs(func(m *ebpf.Map) error { return m.Delete(macKey(port, mac)) })
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("delete MAC address %x of port %d: %w", mac, port, err)
	}
	return nil
}

func macKey(port uint16, mac [6]byte) uint64 {
	var b [8]byte
	copy(b[:], mac[:])
	return binary.LittleEndian.Uint64(b[:]) | uint64(port)<<48
}

// withMACs calls f with the map that all ports share.
func (s *Set) withMACs(f func(*ebpf.Map) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared == nil {
		return errClosed
	}
	return f(s.shared.Macs)
}
