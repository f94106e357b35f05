package fib

import (
	"sync/atomic"

	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/ipv4"
)

// A VRF has tables of its own, which route the packets that its ports receive: IPv4.VRF and IPv6.VRF by its
// number. Next hops are shared, so a route can lead to any port. The number 0 is no VRF: IPv4 and IPv6 themselves.
// A packet without a route in its VRF is dropped; no other table is searched.

// MaxVRFs is the maximum number of VRFs: all VRF IDs of a table except 0.
const MaxVRFs = lookup.NumVRFIDs - 1

// NewVRF returns the number of a VRF without routes and ports.
func (f *FIB) NewVRF() (uint16, error) {
	id, err := f.vrfIDs.alloc()
	return uint16(id), err
}

// FreeVRF deletes the routes of a VRF without ports, and frees its number.
func (f *FIB) FreeVRF(vrf uint16) {
	f.IPv4.VRF(int(vrf)).Clear()
	f.IPv6.VRF(int(vrf)).Clear()
	f.vrfIDs.free(uint32(vrf))
}

// SetPortVRF sets the VRF of a port, 0 by default.
func (f *FIB) SetPortVRF(port, vrf uint16) {
	was := f.PortVRF(port)
	if was == vrf {
		return
	}
	f.setIngress(port, uint32(vrf)<<VRFShift|f.ingress(port)&rpfMask)
	if was == 0 {
		f.vrfPorts.Add(1)
	} else if vrf == 0 {
		f.vrfPorts.Add(-1)
	}
}

// PortVRF returns the VRF of a port.
func (f *FIB) PortVRF(port uint16) uint16 { return uint16(f.ingress(port) >> VRFShift) }

// HasVRFs reports whether any port has a VRF.
func (f *FIB) HasVRFs() bool { return f.vrfPorts.Load() > 0 }

// LookupIPv4 returns the next hop of a packet that a port receives, by its destination in host byte order.
func (f *FIB) LookupIPv4(port uint16, dst uint32) NextHopID {
	_, id := f.IPv4.WalkIn(int(f.PortVRF(port)), ipv4.Key(dst))
	return id
}

// LookupIPv6 returns the next hop of a packet that a port receives, by its destination.
func (f *FIB) LookupIPv6(port uint16, dst [16]byte) NextHopID {
	_, id := f.IPv6.WalkIn(int(f.PortVRF(port)), dst)
	return id
}

// ingress returns the word of a port for received packets: see RPF.
func (f *FIB) ingress(port uint16) uint32 { return atomic.LoadUint32(&f.ingressWords[port]) }

func (f *FIB) setIngress(port uint16, word uint32) {
	atomic.StoreUint32(&f.ingressWords[port], word)
	f.followers.word(Ingress, uint32(port), uint64(word))
}
