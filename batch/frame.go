package batch

// Frame describes one frame in a worker's UMEM. It is 8 bytes with the same layout on the GPU,
// so that a thread reads it in one load.
type Frame struct {
	Addr   uint32 // of the Ethernet header, in bytes from the start of the UMEM
	Len    uint16 // in bytes, without FCS
	Origin Origin
}

// Word returns the frame as one of Words.
func (f Frame) Word() uint64 { return uint64(f.Addr) | uint64(f.Len)<<32 | uint64(f.Origin)<<48 }

// Origin is the port that received a frame, and marks on the frame.
//
//	 15    12 11                    0
//	+--------+-----------------------+
//	| marks  | ingress port          |
//	+--------+-----------------------+
type Origin uint16

// Mark is a set of the upper four bits of an Origin.
type Mark uint16

const (
	// PolicyDone marks a packet on which the IPsec policies have decided, and which is not submitted to them again. It
	// may be ESP by now, or the inner packet of ESP.
	PolicyDone Mark = 1 << 15
	// Own marks a packet that the router or its host has created.
	Own Mark = 1 << 14
	// InboundChecked marks a packet that has passed the inbound policies. With PolicyDone, it leaves in
	// plaintext; if it waits for a neighbor, it passes the outbound policies again.
	InboundChecked Mark = 1 << 13
	// Reassembled marks an IPv6 packet that the router has reassembled from fragments of its source. The
	// router may fragment it again.
	Reassembled Mark = 1 << 12

	allMarks = PolicyDone | Own | InboundChecked | Reassembled
)

// From returns the origin of frames that a port has received, without marks.
func From(port uint16) Origin { return Origin(port) }

// Port returns the port that received the frame.
func (o Origin) Port() uint16 { return uint16(o) &^ uint16(allMarks) }

// Marks returns all marks.
func (o Origin) Marks() Mark { return Mark(o) & allMarks }

// Has reports whether any of the marks is set.
func (o Origin) Has(m Mark) bool { return Mark(o)&m != 0 }

// With returns the origin with marks added.
func (o Origin) With(m Mark) Origin { return o | Origin(m) }

// Without returns the origin with marks removed.
func (o Origin) Without(m Mark) Origin { return o &^ Origin(m) }
