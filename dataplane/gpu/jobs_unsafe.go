package gpu

import (
	"unsafe"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/ipsec"
)

// deviceJob is a job in the format of the device: struct job of job.h, which explains the fields.
type deviceJob struct {
	Key, SeqHigh      uint32
	ESP, Bytes, IPLen uint16
	Flags             uint16
}

// Flags of a job, beside its kind.
const (
	jobExtended         = 4
	jobTransport        = 8
	jobEncapsulate      = 8
	jobUDPChecksum      = 16
	jobArgShift         = 5
	jobKeySegmentsShift = 24 // position in Key of the record's size, in segments of 16 bytes
)

// Verdicts of the device on packets of a first pass that it has neither opened nor sealed.
const (
	resultHost = batch.Verdict(0xf000) // the host processes the packet
	// resultNeedsSeq: the packet is to be sealed by a tunnel, which the result has in place of the address; its length is that of
	// the packet. The host takes a sequence number, and the device seals the packet in the last pass.
	resultNeedsSeq = batch.Verdict(0xf001)
	// resultHostSeals: the host seals the packet. The device has taken the sequence number, and stored it in place of the report
	// about the SA. The result has the index of the SA's keys in place of the address.
	resultHostSeals = batch.Verdict(0xf002)
)

// acceptResult returns the device's result of a packet with a job, without the bit esp.Admitted: it records that bit in the job.
// (Addresses of packets with jobs are even.)
func acceptResult(f batch.Frame, job *esp.Job, r batch.Result) batch.Result {
	if job.Kind != esp.Open || r.Verdict.Action() != batch.ActionForward || r.Addr()&esp.Admitted == 0 {
		return r
	}
	r = batch.ForwardTo(r.Verdict.Port(), r.Addr()&^esp.Admitted, r.Len())
	job.Admit(f, r)
	return r
}

const jobBytes = 16 // the kernel loads it at once

var (
	_ = [1]struct{}{}[unsafe.Sizeof(deviceJob{})-jobBytes]
	_ = [1]struct{}{}[unsafe.Sizeof(seqRequest{})-jobBytes]
)

// setSeq sets the sequence number of a job with jobEncapsulate.
func (j *deviceJob) setSeq(seq uint64) { j.SeqHigh, j.IPLen = uint32(seq), uint16(seq>>32) }

// set writes a job in the device's format.
func (j *deviceJob) set(job *esp.Job) {
	j.Flags = uint16(job.Kind)
	if job.Kind != esp.Seal && job.Kind != esp.Open {
		return
	}
	j.Key, j.SeqHigh, j.ESP, j.Bytes, j.IPLen = job.Key|uint32(job.KeyUsed/16)<<jobKeySegmentsShift, uint32(job.Seq>>32), job.ESP, job.Bytes, job.Header
	if job.Extended {
		j.Flags |= jobExtended
	}
	if job.Kind == esp.Seal && job.Unread {
		j.setSeq(job.Seq)
		j.Flags |= jobEncapsulate
	}
	switch {
	case job.Kind == esp.Seal && job.SumsUDP:
		j.Flags |= jobUDPChecksum
	case job.Kind == esp.Open && job.Mode == ipsec.Transport:
		j.Flags |= jobTransport | job.NextAt<<jobArgShift
	case job.Kind == esp.Open:
		j.Flags |= uint16(job.TOS) << jobArgShift
	}
}
