package esp

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

// Job is the encryption or decryption of one packet by a device, between Begin and Finish, with a
// copy of the SA's fields that the device needs. A packet that the device has opened without a job can get one afterwards, for
// Finish (MakeOpenJob). The host takes sequence numbers and
// checks the replay window; the device may have found the SA and applied the policies.
type Job struct {
	Kind       JobKind
	Mode       ipsec.Mode
	TOS        byte // open: of the header in front of ESP
	Extended   bool // sequence numbers have 64 bits
	SumsUDP    bool // seal: see ipsec.SA
	Admitted   bool // open: the device forwards the packet, and its copy of the policies admits it as it is
	Reroute    bool // open: after Finish, the packet needs another lookup
	SAByDevice bool // open: the device has found the SA
	Unread     bool // seal: the device writes all headers; the host has not read the packet
	// The device has classified the packet: it is to be sealed by this tunnel, and Bytes is its length.
	Classified  bool
	Tunnel      uint32
	ReservedSA  *ipsec.SA // if the packet leaves by this SA, its sequence number is ReservedSeq; nil: none
	ReservedSeq uint64
	KeyUsed     uint16 // length in bytes of the key record's prefix that the device needs
	Key         uint32 // the SA's KeyIndex
	SA          *ipsec.SA
	Seq         uint64 // sequence number, all 64 bits
	// Offsets and lengths in bytes.
	ESP, Bytes uint16 // of the SPI, from the frame's first byte; and from there to the end of the ICV
	Header     uint16 // open: of the IP headers in front of ESP
	NextAt     uint16 // open: of the next header field that names ESP, in these
}

// JobKind is the work of a device on a packet.
type JobKind uint8

const (
	Plain   JobKind = iota // look the packet up
	Decided                // none: the host has decided on the packet
	Seal                   // encrypt, then look up; all is written but ciphertext, ICV and UDP checksum, or nothing if Unread; CBC's IV is the nonce
	Open                   // decrypt, then look up the inner packet
)

// reset makes the job that of a packet that nothing is known of.
func (job *Job) reset() {
	job.Kind, job.SAByDevice, job.Classified, job.ReservedSA = Plain, false, false, nil
}

// hasSeqOf reports whether a packet has a reserved sequence number of an SA, by which it leaves.
func (job *Job) hasSeqOf(sa *ipsec.SA) bool { return job != nil && job.ReservedSA == sa }

// SetHostDecryptsCBC sets whether the host decrypts AES-CBC, for a device that cannot. The default is false.
func (s *Stage) SetHostDecryptsCBC(does bool) { s.hostDecryptsCBC = does }

// HostDecrypts reports whether the host decrypts all packets of an SA: see SetHostDecryptsCBC. It is inlined.
func (s *Stage) HostDecrypts(sa *ipsec.SA) bool {
	return s.hostDecryptsCBC && sa.OpensCBC()
}

// deviceTakes reports whether a packet of an SA can be a job of the device. For received packets, the caller checks HostDecrypts, too. It is inlined.
func (s *Stage) deviceTakes(job *Job, f *batch.Frame, sa *ipsec.SA) bool {
	const aligned = 2 // IP headers and ESP are at multiples of 4 then
	return job != nil && f.Addr%4 == aligned && sa.KeyIndex() < s.keys && !s.frames.IsLarge(*f) && !f.Origin.Has(batch.Reassembled)
}

// set fills in the fields that come from the SA. Bytes is set already.
func (job *Job) set(kind JobKind, sa *ipsec.SA, seq uint64) {
	job.Kind, job.Mode, job.Extended, job.SumsUDP, job.Admitted, job.Reroute, job.SAByDevice, job.Unread, job.SA, job.Seq = kind, sa.Mode(), sa.Extended(), sa.SumsUDP(), false, false, false, false, sa, seq
	job.Key, job.KeyUsed = sa.KeyIndex(), uint16(sa.DeviceKeyUsed(int(job.Bytes)))
}

// Admit records that the device admits a packet, received in frame f, that it has opened and forwards. It does
// not believe a result that cannot be that of the inner packet: elsewhere, or longer.
func (job *Job) Admit(f batch.Frame, r batch.Result) {
	at, end := job.inner()
	size := int(r.Len()) - packet.EthernetLen
	job.Admitted = int(r.Addr()) == int(f.Addr)+at-packet.EthernetLen && size >= packet.IPv4Len && size <= end-at
}
