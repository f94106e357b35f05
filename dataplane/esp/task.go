package esp

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/ipsec"
)

// Task is the cryptography of one packet, for a device to do between Begin and Finish. The host
// decides on policies, sequence numbers and replays.
//
// It is a copy of what the device needs of the SA.
type Task struct {
	Kind     TaskKind
	Mode     ipsec.Mode
	TOS      byte   // open: of the header in front of ESP
	Extended bool   // sequence numbers have 64 bits
	SumsUDP  bool   // seal: see ipsec.SA
	Again    bool   // open: after Finish, the packet needs another lookup
	KeyUsed  uint16 // length in bytes of the key record's part that the device needs
	Key      uint32 // place of the key record on the device: the SA's Number
	SA       *ipsec.SA
	Seq      uint64 // whole sequence number
	// Offsets and lengths in bytes.
	ESP, Bytes uint16 // of the SPI, from the frame's first byte; and from there to the end of the ICV
	Header     uint16 // open: of the IP headers in front of ESP
	NextAt     uint16 // open: of the next header field that names ESP, in these
}

// TaskKind is the work of a device on a packet before the lookup, or what the host made of the
// packet without it.
type TaskKind uint8

const (
	Plain   TaskKind = iota // look the packet up
	Settled                 // none: the packet has its result
	Seal                    // encrypt: the packet is written but for ciphertext, ICV and UDP checksum; CBC's IV has the nonce
	Open                    // decrypt, and look up the inner packet
)

// deviceTakes reports whether a packet of an SA can be a task of the device.
func (s *Stage) deviceTakes(t *Task, f *batch.Frame, sa *ipsec.SA) bool {
	const aligned = 2 // IP headers and ESP are at multiples of 4 then
	return t != nil && f.Addr%4 == aligned && sa.Number() < s.keys && !s.frames.IsLarge(*f) && !f.Origin.Has(batch.Merged)
}

// set copies the SA's part of a task, of which Bytes is set.
func (t *Task) set(kind TaskKind, sa *ipsec.SA, seq uint64) {
	t.Kind, t.Mode, t.Extended, t.SumsUDP, t.Again, t.SA, t.Seq = kind, sa.Mode(), sa.Extended(), sa.SumsUDP(), false, sa, seq
	t.Key, t.KeyUsed = sa.Number(), uint16(sa.DeviceKeyUsed(int(t.Bytes)))
}
