package esp

// SAReport is the word that a device stores about a packet that it has opened or sealed without a job: the index of the SA's keys
// in the lower half, and in the upper half the sequence number of an opened packet, or the size of a sealed one and flags. It is
// report_sa in the kernel. A hostile device can store any value.
type SAReport uint64

// ReportSeqsLow is a bit of the upper half: the device has few sequence numbers of the SA left.
const ReportSeqsLow = 1 << 31

// KeyIndex returns the index of the SA's keys.
func (r SAReport) KeyIndex() uint32 { return uint32(r) }

// Seq returns the sequence number of an opened packet.
func (r SAReport) Seq() uint32 { return uint32(r >> 32) }

// Size returns the size in bytes of a sealed packet, before it was encapsulated.
func (r SAReport) Size() int { return int(uint16(r >> 32)) }

// SeqsLow reports whether the device has few sequence numbers of a sealed packet's SA left.
func (r SAReport) SeqsLow() bool { return r>>32&ReportSeqsLow != 0 }

// HostSeq returns the sequence number that the device has taken for a packet that the host seals: it is stored in place of a
// report.
func (r SAReport) HostSeq() uint64 { return uint64(r) }
