package forward

import (
	"encoding/binary"
	"slices"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/memport"
)

// Kinds of logical ports.
const (
	VLAN = "vlan" // packets arrive and leave in VLANs
	VRF  = "vrf"  // packets arrive in a VRF, which has all routes
	Bond = "bond" // packets arrive by a member of a bond, and leave by the only one that transmits
)

// logical are logical ports that packets arrive and leave by, for a comparison with physical ports.
type logical struct {
	base  *fib.FIB
	ports map[uint16]uint16 // physical ports of the logical ones
	vlans int               // of each port
	tape  *memport.Recording
	plain *memport.Recording // for physical ports: as long, and different in as many bytes, so that the memory port costs the same
}

// newLogical makes the logical ports of a kind for routes and frames.
func newLogical(o *Options, routes []testbed.Route, play [][]byte) (l *logical, err error) {
	l = &logical{ports: map[uint16]uint16{}, plain: memport.Record(play)}
	l.tape = l.plain
	if o.Logical == VRF {
		l.base, err = testbed.NewVRF(routes, 1500)
		return l, err
	}
	if l.base, err = testbed.NewFIB(routes, 1500); err != nil {
		return nil, err
	}
	l.base.VLANs.SetPhysical(testbed.Ports)
	if o.Logical == Bond {
		return l, l.addBond()
	}
	return l, l.addVLANs(o.VLANs, play)
}

// addVLANs adds a number of VLANs to both ports, divides the neighbors among those of their port, and records the frames in
// turn in those of the ingress port.
func (l *logical) addVLANs(n int, play [][]byte) error {
	var by [testbed.Ports][]uint16
	for physical := range uint16(testbed.Ports) {
		for vid := 1; vid <= n; vid++ {
			number, err := l.base.VLANs.Take()
			if err != nil {
				return err
			}
			tag, _ := fib.MakeTag(0x8100, uint16(vid))
			if err := l.base.VLANs.Add(number, physical, tag); err != nil {
				return err
			}
			l.base.SetPort(number, testbed.RouterMAC, 1500)
			l.ports[number], by[physical] = physical, append(by[physical], number)
		}
	}
	l.moveAdjacencies(func(id uint32, port uint16) uint16 { return by[port][int(id)%n] })
	l.vlans = n
	untagged := make([][]byte, len(play))
	for i, f := range play {
		untagged[i] = slices.Concat(f[:10], l.vid(i), f[12:], make([]byte, fib.TagLen)) // source address, padding
	}
	l.tape, l.plain = memport.Record(l.enter(play)), memport.Record(untagged)
	return nil
}

// vid returns the VLAN ID of frame i.
func (l *logical) vid(i int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(1+i%l.vlans)) }

// enter returns frames as the ingress port receives them: in VLANs if there are any. l may be nil.
func (l *logical) enter(play [][]byte) [][]byte {
	if l == nil || l.vlans == 0 {
		return play
	}
	tagged := make([][]byte, len(play))
	for i, f := range play {
		tagged[i] = slices.Concat(f[:12], []byte{0x81, 0}, l.vid(i), f[12:])
	}
	return tagged
}

// leave returns a transmitted frame without the tag that it has if there are VLANs. l may be nil.
func (l *logical) leave(f []byte) []byte {
	if l == nil || l.vlans == 0 {
		return f
	}
	if len(f) < 16 || f[12] != 0x81 || f[13] != 0 || int(binary.BigEndian.Uint16(f[14:])) > l.vlans {
		return nil
	}
	return slices.Concat(f[:12], f[16:])
}

// addBond makes both ports members of a bond, of which the egress port transmits.
func (l *logical) addBond() error {
	number, err := l.base.VLANs.Take()
	if err != nil {
		return err
	}
	bonds := l.base.Bonds
	bonds.Add(number)
	bonds.SetMaster(0, number)
	bonds.SetMaster(testbed.EgressPort, number)
	bonds.SetMembers(number, []fib.Path{{Adjacency: 0, Weight: 1, Dead: true}, {Adjacency: testbed.EgressPort, Weight: 1}})
	l.base.SetPort(number, testbed.RouterMAC, 1500)
	l.ports[number] = 0
	l.moveAdjacencies(func(uint32, uint16) uint16 { return number })
	return nil
}

// moveAdjacencies moves all neighbors to other ports.
func (l *logical) moveAdjacencies(to func(id uint32, port uint16) uint16) {
	for id := uint32(1); l.base.Adjacency(id) != 0; id++ {
		a := l.base.Adjacency(id)
		l.base.SetAdjacency(id, to(id, a.Port()), a.MAC())
	}
}

// add adds the logical ports to a router. l may be nil.
func (l *logical) add(b *testbed.Testbed) {
	if l == nil {
		return
	}
	for number, physical := range l.ports {
		b.Router.AddPort(number, physical)
	}
}

// maxVLANs leaves numbers for the physical ports.
const maxVLANs = (batch.MaxPorts - testbed.Ports) / testbed.Ports

// CheckVLANs reports whether a number of VLANs per port is possible.
func CheckVLANs(n int) bool { return n >= 0 && n <= maxVLANs }
