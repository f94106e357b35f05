package gpulookup

import (
	"errors"
	"fmt"
	"time"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/lookup/device"
)

// ResidentChunks is how many chunks are under way at a time on the way resident, one
// for each block: enough to fill PCIe while many wait for the other side.
const ResidentChunks = 32

// patience is how long the device may take to answer.
const patience = 5 * time.Second

// resident is the way to a kernel that stays. Chunks go to its blocks by turns.
type resident struct {
	*bench
	launch *cuda.Launch
	params residentParams
	lines  *device.Pinned // doorbells, then done numbers, a line for each block
	turns  []uint32       // of each block
	next   int            // the block whose turn it is
	runs   bool
	load   *workload
}

func (b *bench) newResident(blocks int) (*resident, error) {
	f, err := b.module.Function(b.stay)
	if err != nil {
		return nil, err
	}
	r := &resident{bench: b, turns: make([]uint32, blocks)}
	if r.lines, err = b.Pin(2 * blocks * lineBytes); err != nil {
		return nil, err
	}
	r.params.Size = smallChunk
	r.params.Doorbells, r.params.Done = r.lines.Ptr(), r.lines.Ptr().Add(blocks*lineBytes)
	r.launch, err = cuda.NewLaunch(f, &r.params)
	if err != nil {
		return nil, err
	}
	r.launch.Grid.X, r.launch.Block.X = uint32(blocks), residentThreads
	return r, nil
}

func (r *resident) way() *way {
	return &way{name: "resident", chunk: smallChunk, prepare: r.start, pass: r.pass, settle: r.settle, collect: r.stop}
}

func (r *resident) start(w *workload, look bool) error {
	clear(r.lines.Bytes)
	clear(r.turns)
	r.next, r.load = 0, w
	r.params.Columns = r.onHost(w, look)
	err := r.launch.Enqueue(r.streams[0])
	r.runs = err == nil
	return err
}

// pass hands out all chunks, and waits for a block where it has not finished its last one.
func (r *resident) pass() error {
	for chunk := range r.load.n / smallChunk {
		if err := r.wait(r.next); err != nil {
			return err
		}
		r.ring(r.next, uint32(chunk))
		r.next = (r.next + 1) % len(r.turns)
	}
	return nil
}

func (r *resident) ring(block int, chunk uint32) {
	r.turns[block]++
	storeWord(r.lines.Bytes[block*lineBytes:], uint64(chunk)<<32|uint64(r.turns[block]))
}

// wait waits until a block has done what it was told.
func (r *resident) wait(block int) error {
	done := r.lines.Bytes[(len(r.turns)+block)*lineBytes:]
	var since time.Time
	for looks := 1; loadNumber(done) != r.turns[block]; looks++ {
		switch {
		case looks%(1<<16) != 0: // a clock costs more than a look
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > patience:
			_, err := r.streams[0].Done() // knows of a fault
			return errors.Join(fmt.Errorf("block %d of the resident kernel has not answered for %v", block, patience), err)
		}
	}
	return nil
}

func (r *resident) settle() error {
	for block := range r.turns {
		if err := r.wait(block); err != nil {
			return err
		}
	}
	return nil
}

// stop ends the kernel.
func (r *resident) stop() error {
	if !r.runs {
		return nil
	}
	r.runs = false
	for block := range r.turns {
		r.ring(block, stop)
	}
	for since := time.Now(); ; {
		done, err := r.streams[0].Done()
		if done || err != nil {
			return err
		}
		if time.Since(since) > patience {
			r.hung = true
			return fmt.Errorf("the resident kernel has not ended for %v: the end of this process ends it", patience)
		}
	}
}
