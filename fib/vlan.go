package fib

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/batch"
)

// Tag is a VLAN tag without its priority.
//
//	 15 13 12 11          0
//	+-----+--+-------------+
//	|  0  |S | VID         |
//	+-----+--+-------------+
//
// S is set for the EtherType 0x88a8 (802.1ad), and clear for 0x8100 (802.1Q).
type Tag uint16

// ServiceTag is the bit of the EtherType.
const ServiceTag Tag = 1 << 12

const (
	tpidCustomer = 0x8100
	tpidService  = 0x88a8
)

// MakeTag returns the tag with an EtherType and the lower 12 bits of a VLAN identifier. It is not ok
// for an EtherType that is not of a tag.
func MakeTag(etherType, vid uint16) (t Tag, ok bool) {
	t = Tag(vid & 0xfff)
	if etherType == tpidService {
		return t | ServiceTag, true
	}
	return t, etherType == tpidCustomer
}

// VID returns the VLAN identifier. With VID 0, the tag only has a priority.
func (t Tag) VID() uint16 { return uint16(t & 0xfff) }

// EtherType returns the EtherType that announces the tag.
func (t Tag) EtherType() uint16 {
	if t&ServiceTag != 0 {
		return tpidService
	}
	return tpidCustomer
}

func (t Tag) String() string {
	if t&ServiceTag != 0 {
		return fmt.Sprintf("802.1ad %d", t.VID())
	}
	return fmt.Sprintf("802.1Q %d", t.VID())
}

// MaxTags is the maximum number of tags of a frame, and TagLen the length of each in bytes. They follow the MAC
// addresses, of MACsLen.
const (
	MaxTags = 2
	TagLen  = 4
	MACsLen = 12
)

// Carrier is the word of a logical port: the physical port or bond that carries its frames, and their tags.
//
//	 63         32 31       18 17  16 15 12 11        0
//	+-------------+-----------+------+-----+-----------+
//	| outer tag   | inner tag | tags |  0  | port      |
//	+-------------+-----------+------+-----+-----------+
//
// The outer tag is as in a frame, loaded in little-endian order. A bond has itself as port, and no tags. It is 0 for
// a number that no logical port has.
type Carrier uint64

const oneTag = 1 << 16

// Carriers are the words of logical ports, by number.
type Carriers [batch.MaxPorts]uint64

// Of returns the word of a logical port, 0 if the number has none.
func (c *Carriers) Of(number uint64) Carrier {
	return Carrier(atomic.LoadUint64(&c[number%batch.MaxPorts]))
}

// Port returns the physical port or bond.
func (w Carrier) Port() uint16 { return uint16(w & 0xfff) }

// Tags returns the number of tags, 0 for a bond, and if there is no such logical port.
func (w Carrier) Tags() int { return int(w >> 16 & 3) }

// PortOfOneTag returns the port if the number of tags is one, and a number that no port has otherwise.
func (w Carrier) PortOfOneTag() uint64 { return uint64(w&0x3ffff) - oneTag }

// Outer returns the outer tag as it is in a frame, loaded in little-endian order.
func (w Carrier) Outer() uint32 { return uint32(w >> 32) }

// Tag returns a tag, 0 for the outer one.
func (w Carrier) Tag(i int) (t Tag) {
	if i > 0 {
		return Tag(w >> 18 & 0x3fff)
	}
	outer := bits.ReverseBytes32(w.Outer())
	t, _ = MakeTag(uint16(outer>>16), uint16(outer))
	return t
}

// with returns the carrier with another, inner tag.
func (w Carrier) with(t Tag) Carrier {
	if w.Tags() > 0 {
		return w + oneTag | Carrier(t)<<18
	}
	return w + oneTag | Carrier(bits.ReverseBytes32(uint32(t.EtherType())<<16|uint32(t.VID())))<<32
}

// VLANs holds the logical ports: the VLAN subinterfaces of ports, and the numbers of bonds (Bonds). A logical port has a port number
// behind those of the physical ports, and is one wherever a port number occurs: engines receive its
// frames without tags and with its number. Workers remove tags by Child. The engine that writes the link
// addresses also adds the tag if there is one (TagsByEngines); workers add two by Carrier.
//
// Each entry is one word. One goroutine, the writer of the FIB, calls the methods that change entries.
// Workers read. A freed number is reused when every Reader has passed a later epoch, and reuseAfter has
// passed, so that packets that wait for a neighbor have left.
type VLANs struct {
	carriers *Carriers
	tagged   []uint32 // by physical port or bond: 1 if its frames may have tags, or it is a member of a bond
	bonds    *Bonds
	children []atomic.Pointer[Children] // by parent and EtherType (childrenIndex); nil for none

	byWorkers atomic.Bool                     // see LeaveTags
	setTag    func(number uint16, tag uint32) // of the FIB

	readers *readers
	next    uint32 // lowest number that was never used
	used    int    // numbers in use
	freed   []freedPort
	now     func() time.Time
}

type freedPort struct {
	number uint16
	epoch  uint64
	at     time.Time
}

// reuseAfter is the time in which a freed number is not reused. Workers keep packets for up to 3 s.
const reuseAfter = 5 * time.Second

func newVLANs(r *readers, setTag func(number uint16, tag uint32)) *VLANs {
	return &VLANs{
		setTag:   setTag,
		carriers: new(Carriers), tagged: make([]uint32, batch.MaxPorts),
		children: make([]atomic.Pointer[Children], 2*batch.MaxPorts), readers: r, now: time.Now,
	}
}

// SetPhysical sets the number of physical ports, whose numbers are the lowest. It is called before Add.
func (v *VLANs) SetPhysical(ports int) { v.next = uint32(ports) }

// Take returns a free number for Add. The error is ErrFull if all numbers are in use or were freed in
// the last seconds.
func (v *VLANs) Take() (uint16, error) {
	if v.next < batch.MaxPorts {
		v.next++
		v.used++
		return uint16(v.next - 1), nil
	}
	if len(v.freed) > 0 {
		if f := v.freed[0]; f.epoch <= v.readers.oldest() && v.now().Sub(f.at) >= reuseAfter {
			v.freed = v.freed[1:]
			v.used++
			return f.number, nil
		}
	}
	return 0, fmt.Errorf("%w: all %d port numbers are in use, %d of them by VLANs and bonds", ErrFull, batch.MaxPorts, v.used)
}

// Add makes a number of Take the port of frames that parent, a physical or logical port, receives with a
// tag, or a bond. The error says that the frames would have more than MaxTags tags, or that parent has no carrier.
func (v *VLANs) Add(number, parent uint16, t Tag) error {
	up := v.Carrier(parent)
	if up.Tags() == 0 {
		up = Carrier(parent)
	}
	if up.Tags() == MaxTags {
		return fmt.Errorf("add logical port %d: its frames would have %d tags, at most %d are supported", number, MaxTags+1, MaxTags)
	}
	carrier, tag := up.with(t), uint32(0)
	if carrier.Tags() == 1 && v.TagsByEngines() {
		tag = carrier.Outer()
	}
	atomic.StoreUint64(&v.carriers[number], uint64(carrier))
	v.setTag(number, tag)
	children := &v.children[childrenIndex(parent, t)]
	if children.Load() == nil {
		children.Store(new(Children))
	}
	atomic.StoreUint32(&children.Load()[t.VID()], childBit|uint32(number))
	atomic.StoreUint32(&v.tagged[up.Port()], 1)
	return nil
}

// Delete deletes the logical port that Add has made of a number, and frees the number. Packets that the
// port would transmit from now on are dropped. Its tag word stays until the number is used again: packets may
// be in flight.
func (v *VLANs) Delete(number, parent uint16, t Tag) {
	children := &v.children[childrenIndex(parent, t)]
	if c := children.Load(); c != nil {
		if atomic.StoreUint32(&c[t.VID()], 0); *c == noChildren {
			children.Store(nil)
		}
	}
	atomic.StoreUint64(&v.carriers[number], 0)
	v.Free(number)
}

// Free frees a number of Take that no logical port has.
func (v *VLANs) Free(number uint16) {
	v.freed = append(v.freed, freedPort{number, v.readers.epoch.Add(1), v.now()})
	v.used--
}

// Bonds returns the bonds, whose numbers are of Take.
func (v *VLANs) Bonds() *Bonds { return v.bonds }

// Tagged reports whether frames that a physical port or bond receives may have tags, or belong to a bond: it has had
// a VLAN, or is a member.
func (v *VLANs) Tagged(port uint16) bool { return atomic.LoadUint32(&v.tagged[port]) != 0 }

// childrenIndex returns the index in children of a parent and the EtherType of a tag.
func childrenIndex(parent uint16, t Tag) int { return int(parent)<<1 | int(t>>12&1) }

// Children returns the ports of frames that a port receives with a tag of the EtherType 0x8100.
func (v *VLANs) Children(port uint16) *Children { return v.childrenOf(port, 0) }

func (v *VLANs) childrenOf(port uint16, t Tag) *Children {
	if c := v.children[childrenIndex(port, t)].Load(); c != nil {
		return c
	}
	return &noChildren
}

// Child returns the port of frames that a port receives with a tag.
func (v *VLANs) Child(port uint16, t Tag) (number uint16, ok bool) {
	n := atomic.LoadUint32(&v.childrenOf(port, t)[t.VID()])
	return uint16(n), n != 0
}

// Carriers returns the words of logical ports.
func (v *VLANs) Carriers() *Carriers { return v.carriers }

// Carrier returns the word of a logical port, 0 if the number has none.
func (v *VLANs) Carrier(number uint16) Carrier {
	return v.carriers.Of(uint64(number))
}

// LeaveTags makes workers add all tags, as on a gateway, whose engines move packets. The writer calls it, before the first
// packet. Later calls do nothing: any goroutine may make them.
func (v *VLANs) LeaveTags() {
	if v.byWorkers.Load() {
		return
	}
	v.byWorkers.Store(true)
	for number := range v.carriers {
		v.setTag(uint16(number), 0)
	}
}

// TagsByEngines reports whether engines add the tag of ports with one (TagWords). Workers add those of ports with two.
func (v *VLANs) TagsByEngines() bool { return !v.byWorkers.Load() }

// Used returns the number of logical ports. Only the writer calls it.
func (v *VLANs) Used() int { return v.used }

// Children are the ports of the frames that a port receives with a tag of one EtherType, by VID: 0, or the number
// and childBit.
type Children [1 << 12]uint32

const childBit = 1 << 16

// noChildren are those of a port without VLANs.
var noChildren Children

// Of returns the port of frames with the VID in the lower 12 bits of a TCI, 0 for none or, in tests, port 0.
func (c *Children) Of(tci uint16) (number uint32) {
	return atomic.LoadUint32(&c[tci%uint16(len(c))]) &^ childBit
}
