package forward

import (
	"encoding/binary"
	"slices"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/memport"
)

// vlans are the VLANs of a measurement: packets arrive and leave in them, instead of untagged.
type vlans struct {
	ports map[uint16]uint16 // physical ports of the logical ones
	tape  *memport.Recording
	base  *fib.FIB
	// The same frames untagged. They are as long, and differ in as many bytes, so that the memory port costs the same.
	untagged *memport.Recording
}

// newVLANs adds a number of VLANs to both ports of a FIB, divides the neighbors among those of their port, and
// records the frames in turn in those of the ingress port.
func newVLANs(base *fib.FIB, n int, play [][]byte) (*vlans, error) {
	v := &vlans{ports: map[uint16]uint16{}, base: base}
	base.VLANs.SetPhysical(testbed.Ports)
	var by [testbed.Ports][]uint16
	for physical := range uint16(testbed.Ports) {
		for vid := 1; vid <= n; vid++ {
			number, err := base.VLANs.Take()
			if err != nil {
				return nil, err
			}
			tag, _ := fib.MakeTag(0x8100, uint16(vid))
			if err := base.VLANs.Add(number, physical, tag); err != nil {
				return nil, err
			}
			base.SetPort(number, testbed.RouterMAC, 1500)
			v.ports[number], by[physical] = physical, append(by[physical], number)
		}
	}
	for id := uint32(1); base.Adjacency(id) != 0; id++ {
		a := base.Adjacency(id)
		base.SetAdjacency(id, by[a.Port()][int(id)%n], a.MAC())
	}
	tagged, untagged := make([][]byte, len(play)), make([][]byte, len(play))
	for i, f := range play {
		vid := binary.BigEndian.AppendUint16(nil, uint16(1+i%n))
		tagged[i] = slices.Concat(f[:12], []byte{0x81, 0}, vid, f[12:])
		untagged[i] = slices.Concat(f[:10], vid, f[12:], make([]byte, fib.TagLen)) // source address, padding
	}
	v.tape, v.untagged = memport.Record(tagged), memport.Record(untagged)
	return v, nil
}

// add adds the logical ports to a router. v may be nil.
func (v *vlans) add(b *testbed.Testbed) {
	if v == nil {
		return
	}
	for number, physical := range v.ports {
		b.Router.AddPort(number, physical)
	}
}

// maxVLANs leaves numbers for the physical ports.
const maxVLANs = (batch.MaxPorts - testbed.Ports) / testbed.Ports

// CheckVLANs reports whether a number of VLANs per port is possible.
func CheckVLANs(n int) bool { return n >= 0 && n <= maxVLANs }
