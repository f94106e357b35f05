package gpu

import (
	"fmt"
	"unsafe"

	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/internal/hostmem"
	"github.com/warproute/warproute/ipsec"
)

// deviceJob is a job in the format of the device: struct job of job.h, which explains the fields.
type deviceJob struct {
	Key, High          uint32
	ESP, Bytes, Header uint16
	Flags              uint16
}

// Flags of a job, beside its kind.
const (
	jobExtended         = 4
	jobTransport        = 8
	jobUDPChecksum      = 16
	jobArgShift         = 5
	jobKeySegmentsShift = 24 // position in Key of the record's size, in segments of 16 bytes
)

var _ = [1]struct{}{}[unsafe.Sizeof(deviceJob{})-16] // the kernel loads it at once

// set writes a job in the device's format.
func (j *deviceJob) set(job *esp.Job) {
	j.Flags = uint16(job.Kind)
	if job.Kind != esp.Seal && job.Kind != esp.Open {
		return
	}
	j.Key, j.High, j.ESP, j.Bytes, j.Header = job.Key|uint32(job.KeyUsed/16)<<jobKeySegmentsShift, uint32(job.Seq>>32), job.ESP, job.Bytes, job.Header
	if job.Extended {
		j.Flags |= jobExtended
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

// jobTable is host memory with a job for each packet of each slot.
type jobTable struct {
	*hostmem.Memory
	slots [][]deviceJob
}

func newJobTable(slots, size int) (*jobTable, error) {
	perSlot := (size + batchFrames - 1) / batchFrames * batchFrames
	mem, err := hostmem.Map(slots * perSlot * int(unsafe.Sizeof(deviceJob{})))
	if err != nil {
		return nil, fmt.Errorf("jobs of %d chunks: %w", slots, err)
	}
	all := unsafe.Slice((*deviceJob)(unsafe.Pointer(&mem.Bytes[0])), slots*perSlot)
	j := &jobTable{Memory: mem}
	for i := range slots {
		j.slots = append(j.slots, all[i*perSlot:(i+1)*perSlot])
	}
	return j, nil
}
