package fib

import (
	"fmt"
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

// MaxTags is the maximum number of tags of a frame, and TagLen the length of each in bytes.
const (
	MaxTags = 2
	TagLen  = 4
)

// Carrier is the word of a logical port: the physical port that carries its frames, and their tags.
//
//	 63  46 45       32 31       18 17  16 15 12 11        0
//	+------+-----------+-----------+------+-----+-----------+
//	|  0   | inner tag | outer tag | tags |  0  | port      |
//	+------+-----------+-----------+------+-----+-----------+
//
// It is 0 for a number that no logical port has.
type Carrier uint64

// Port returns the physical port.
func (w Carrier) Port() uint16 { return uint16(w & 0xfff) }

// Tags returns the number of tags, 0 if there is no such logical port.
func (w Carrier) Tags() int { return int(w >> 16 & 3) }

// Tag returns a tag, 0 for the outer one.
func (w Carrier) Tag(i int) Tag { return Tag(w >> (18 + 14*i) & 0x3fff) }

// with returns the carrier with another, inner tag.
func (w Carrier) with(t Tag) Carrier {
	n := w.Tags()
	return w + 1<<16 | Carrier(t)<<(18+14*n)
}

// VLANs holds the logical ports: the VLAN subinterfaces of ports. A logical port has a port number
// behind those of the physical ports, and is one wherever a port number occurs: engines receive its
// frames without tags and with its number. Workers remove tags by Child, and add them by Carrier.
//
// Each entry is one word. One goroutine, the writer of the FIB, calls the methods that change entries.
// Workers read. A freed number is reused when every Reader has passed a later epoch, and reuseAfter has
// passed, so that packets that wait for a neighbor have left.
type VLANs struct {
	carriers []uint64                  // Carrier words by port number
	tagged   []uint32                  // by physical port: 1 if its frames may have tags
	children atomic.Pointer[vlanTable] // port numbers by parent and tag

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

func newVLANs(r *readers) *VLANs {
	v := &VLANs{carriers: make([]uint64, batch.MaxPorts), tagged: make([]uint32, batch.MaxPorts), readers: r, now: time.Now}
	v.children.Store(&vlanTable{})
	return v
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
	return 0, fmt.Errorf("%w: all %d port numbers are in use, %d of them by VLANs", ErrFull, batch.MaxPorts, v.used)
}

// Add makes a number of Take the port of frames that parent, a physical or logical port, receives with a
// tag. The error says that the frames would have more than MaxTags tags, or that parent has no carrier.
func (v *VLANs) Add(number, parent uint16, t Tag) error {
	up := v.Carrier(parent)
	if up.Tags() == 0 {
		up = Carrier(parent)
	}
	if up.Tags() == MaxTags {
		return fmt.Errorf("add logical port %d: its frames would have %d tags, at most %d are supported", number, MaxTags+1, MaxTags)
	}
	atomic.StoreUint64(&v.carriers[number], uint64(up.with(t)))
	table := v.children.Load()
	if !table.insert(childKey(parent, t), number) {
		table = table.rebuild()
		table.insert(childKey(parent, t), number)
		v.children.Store(table)
	}
	atomic.StoreUint32(&v.tagged[up.Port()], 1)
	return nil
}

// Delete deletes the logical port that Add has made of a number, and frees the number. Packets that the
// port would transmit from now on are dropped.
func (v *VLANs) Delete(number, parent uint16, t Tag) {
	v.children.Load().remove(childKey(parent, t))
	atomic.StoreUint64(&v.carriers[number], 0)
	v.Free(number)
}

// Free frees a number of Take that no logical port has.
func (v *VLANs) Free(number uint16) {
	v.freed = append(v.freed, freedPort{number, v.readers.epoch.Add(1), v.now()})
	v.used--
}

// Tagged reports whether frames that a physical port receives may have tags: it has had a logical port.
func (v *VLANs) Tagged(port uint16) bool { return atomic.LoadUint32(&v.tagged[port]) != 0 }

// Child returns the port of frames that a port receives with a tag.
func (v *VLANs) Child(port uint16, t Tag) (number uint16, ok bool) {
	return v.children.Load().find(childKey(port, t))
}

// Carrier returns the word of a logical port, 0 if the number has none.
func (v *VLANs) Carrier(number uint16) Carrier {
	return Carrier(atomic.LoadUint64(&v.carriers[number]))
}

// Used returns the number of logical ports. Only the writer calls it.
func (v *VLANs) Used() int { return v.used }

// vlanTable is a hash table with open addressing: at most half of its slots are in use. An entry never
// moves, so a reader needs one load per slot.
//
//	 63  62     48 47 41 40        16 15        0
//	+---+---------+-----+------------+-----------+
//	| 1 |    0    |  0  | key        | number    |
//	+---+---------+-----+------------+-----------+
//
// A slot is 0 if it was never used, and deletedSlot after a deletion.
type vlanTable struct {
	slots [vlanSlots]uint64
	used  int // slots that are not 0; for the writer
}

const (
	vlanSlots   = 2 * batch.MaxPorts
	vlanBits    = 13
	deletedSlot = 1
	entryBit    = 1 << 63
)

// childKey is the key of a tag on a port.
func childKey(port uint16, t Tag) uint64 { return uint64(port)<<13 | uint64(t) }

func firstSlot(key uint64) int { return int(key * 0x9e3779b97f4a7c15 >> (64 - vlanBits)) }

func (t *vlanTable) find(key uint64) (number uint16, ok bool) {
	for i := firstSlot(key); ; i = (i + 1) % vlanSlots {
		switch slot := atomic.LoadUint64(&t.slots[i]); {
		case slot>>16 == key|entryBit>>16:
			return uint16(slot), true
		case slot == 0:
			return 0, false
		}
	}
}

// insert adds or replaces an entry. It returns false if the table must be rebuilt first.
func (t *vlanTable) insert(key uint64, number uint16) bool {
	entry := entryBit | key<<16 | uint64(number)
	for i := firstSlot(key); ; i = (i + 1) % vlanSlots {
		switch slot := t.slots[i]; {
		case slot>>16 == key|entryBit>>16:
			atomic.StoreUint64(&t.slots[i], entry)
			return true
		case slot == 0:
			if t.used >= vlanSlots*3/4 {
				return false
			}
			t.used++
			atomic.StoreUint64(&t.slots[i], entry)
			return true
		}
	}
}

func (t *vlanTable) remove(key uint64) {
	for i := firstSlot(key); t.slots[i] != 0; i = (i + 1) % vlanSlots {
		if t.slots[i]>>16 == key|entryBit>>16 {
			atomic.StoreUint64(&t.slots[i], deletedSlot)
			return
		}
	}
}

// rebuild returns a copy without deleted slots.
func (t *vlanTable) rebuild() *vlanTable {
	next := &vlanTable{}
	for _, slot := range t.slots {
		if slot > deletedSlot {
			next.insert(slot&^entryBit>>16, uint16(slot))
		}
	}
	return next
}
