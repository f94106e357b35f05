package gpu

import (
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/dataplane/gpu/choice"
)

// flight is a submitted chunk.
type flight struct {
	chunk     *batch.Chunk
	placement Placement
	pass      pass
	passFlags uint32           // of the tile headers of its first pass
	expected  esp.Expected     // the SA that it was posted for
	ticket    uint64           // of the next chunk, if the device assigns its sequence numbers
	revoked   uint32           // lender.revoked when it was posted
	jobs      []esp.Job        // of its packets, nil without
	slots     [maxTiles]uint16 // of its tiles, in order
	tiles     int
	needed    int           // slots for tiles of the usual size
	free      int           // blocks of its lane that were free before it took some
	blocks    uint32        // that must be awake for them
	finished  int           // tiles whose results are copied
	submitted time.Duration // by batch.Clock
	ageStart  time.Duration // when its last pass, or that of an older chunk for which it waited, was posted (restartAge); 0: not
	late      lateness
	deferred  bool
	receiving bool
	opensLast bool // the last pass opens received packets that a first pass could open, too: their replay windows are confirmed behind it
	repeated  bool // by the shadow
	choice    choice.Choice
	class     choice.Class
	bytes     int           // of its packets, as the host submits them; see bytesOf
	polled    time.Duration // last poll in vain; 0: none
	seen      time.Duration // first poll that found it finished
}

// assignsSeqs reports whether a chunk was posted for the device to assign sequence numbers.
func (f *flight) assignsSeqs() bool { return f.passFlags&seqFlag != 0 }

// Placement is where a chunk was executed, and why.
type Placement uint8

const (
	ExecutedOnGPU Placement = iota
	ExecutedOnCPU           // the GPU was out of use
	CPUSooner               // on the CPU: predicted to be sooner
	CPUExplored             // on the CPU: for choice.Explored
	NoFreeSlot              // on the CPU: too few slots were free
	KernelParked            // on the CPU: the kernel was not running
	GPULate                 // on the CPU: an older chunk on the GPU was late, or was deferred
	Abandoned               // the GPU did not finish it
	numPlacements
)

// tileStart returns the first packet of tile k.
func (f *flight) tileStart(k int) int { return f.chunk.N * k / f.tiles }
