package gpu

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/ipsec"
)

// job is what the device is to do with a packet before it looks it up; job.h has the same
// and says what the fields are.
type job struct {
	Key, High          uint32
	ESP, Bytes, Header uint16
	Flags              uint16
}

// Flags of a job: the kind of the task, and these.
const (
	jobExtended  = 4
	jobTransport = 8
	jobSum       = 16
	jobDetail    = 5
	jobLines     = 24 // where Key has the size of the record, in lines of 16 bytes
)

// jobsSize is in the size of a chunk that has jobs; mailbox.h has the same.
const jobsSize = 1 << 29

var _ = [1]struct{}{}[unsafe.Sizeof(job{})-16] // the kernel reads it at once

// set fills in a job.
func (j *job) set(t *cpu.Task) {
	j.Flags = uint16(t.Kind)
	if t.Kind != cpu.Seal && t.Kind != cpu.Open {
		return
	}
	j.Key, j.High, j.ESP, j.Bytes, j.Header = t.Key|uint32(t.KeyUsed/16)<<jobLines, uint32(t.Seq>>32), t.ESP, t.Bytes, t.Header
	if t.Extended {
		j.Flags |= jobExtended
	}
	switch {
	case t.Kind == cpu.Seal && t.SumsUDP:
		j.Flags |= jobSum
	case t.Kind == cpu.Open && t.Mode == ipsec.Transport:
		j.Flags |= jobTransport | t.NextAt<<jobDetail
	case t.Kind == cpu.Open:
		j.Flags |= uint16(t.TOS) << jobDetail
	}
}

// jobs is host memory beside a mailbox: a job for each packet of each slot.
type jobs struct {
	mem   []byte
	slots [][]job
}

func newJobs(slots, size int) (*jobs, error) {
	perSlot := (size + quadFrames - 1) / quadFrames * quadFrames
	bytes := slots * perSlot * int(unsafe.Sizeof(job{}))
	mem, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes for the jobs of %d chunks: %w", bytes, slots, err)
	}
	all := unsafe.Slice((*job)(unsafe.Pointer(&mem[0])), slots*perSlot)
	j := &jobs{mem: mem}
	for i := range slots {
		j.slots = append(j.slots, all[i*perSlot:(i+1)*perSlot])
	}
	return j, nil
}

func (j *jobs) close() error { return unix.Munmap(j.mem) }
