package gpu

import (
	"fmt"
	"unsafe"

	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/internal/hostmem"
	"github.com/warproute/warproute/ipsec"
)

// job is the ESP processing of a packet by the device, before the lookup. job.h has the same struct and
// explains the fields.
type job struct {
	Key, High          uint32
	ESP, Bytes, Header uint16
	Flags              uint16
}

// Flags of a job, beside the kind of its task.
const (
	jobExtended      = 4
	jobTransport     = 8
	jobUDPChecksum   = 16
	jobArgShift      = 5
	jobKeyLinesShift = 24 // position in Key of the record's size, in lines of 16 bytes
)

var _ = [1]struct{}{}[unsafe.Sizeof(job{})-16] // the kernel loads it at once

// set writes the job of a task.
func (j *job) set(t *esp.Task) {
	j.Flags = uint16(t.Kind)
	if t.Kind != esp.Seal && t.Kind != esp.Open {
		return
	}
	j.Key, j.High, j.ESP, j.Bytes, j.Header = t.Key|uint32(t.KeyUsed/16)<<jobKeyLinesShift, uint32(t.Seq>>32), t.ESP, t.Bytes, t.Header
	if t.Extended {
		j.Flags |= jobExtended
	}
	switch {
	case t.Kind == esp.Seal && t.SumsUDP:
		j.Flags |= jobUDPChecksum
	case t.Kind == esp.Open && t.Mode == ipsec.Transport:
		j.Flags |= jobTransport | t.NextAt<<jobArgShift
	case t.Kind == esp.Open:
		j.Flags |= uint16(t.TOS) << jobArgShift
	}
}

// jobs is host memory with a job for each packet of each slot.
type jobs struct {
	*hostmem.Memory
	slots [][]job
}

func newJobs(slots, size int) (*jobs, error) {
	perSlot := (size + batchFrames - 1) / batchFrames * batchFrames
	mem, err := hostmem.Map(slots * perSlot * int(unsafe.Sizeof(job{})))
	if err != nil {
		return nil, fmt.Errorf("jobs of %d chunks: %w", slots, err)
	}
	all := unsafe.Slice((*job)(unsafe.Pointer(&mem.Bytes[0])), slots*perSlot)
	j := &jobs{Memory: mem}
	for i := range slots {
		j.slots = append(j.slots, all[i*perSlot:(i+1)*perSlot])
	}
	return j, nil
}
