package gpulookup

import (
	"errors"
	"fmt"
	"time"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/lookup/device"
)

// ResidentChunks is the number of chunks in flight in resident method, one per block: enough to
// saturate PCIe.
const ResidentChunks = 32

// patience is the timeout of a chunk.
const patience = 5 * time.Second

// resident is the method with a resident kernel. Chunks are assigned to its blocks round-robin.
type resident struct {
	*bench
	launch *cuda.Launch
	params residentParams
	lines  *device.Pinned // doorbells, then done words, one line per block
	seqs   []uint32       // last sequence number per block
	next   int            // block of the next chunk
	runs   bool
	load   *workload
}

func (b *bench) newResident(blocks int) (*resident, error) {
	f, err := b.module.Function(b.stay)
	if err != nil {
		return nil, err
	}
	r := &resident{bench: b, seqs: make([]uint32, blocks)}
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

func (r *resident) method() *method {
	return &method{name: "resident", chunk: smallChunk, prepare: r.start, pass: r.pass, wait: r.wait, collect: r.stop}
}

func (r *resident) start(w *workload, look bool) error {
	clear(r.lines.Bytes)
	clear(r.seqs)
	r.next, r.load = 0, w
	r.params.Columns = r.onHost(w, look)
	err := r.launch.Enqueue(r.streams[0])
	r.runs = err == nil
	return err
}

// pass posts all chunks, and waits for a block that has not finished its previous one.
func (r *resident) pass() error {
	for chunk := range r.load.n / smallChunk {
		if err := r.await(r.next); err != nil {
			return err
		}
		r.ring(r.next, uint32(chunk))
		r.next = (r.next + 1) % len(r.seqs)
	}
	return nil
}

func (r *resident) ring(block int, chunk uint32) {
	r.seqs[block]++
	storeWord(r.lines.Bytes[block*lineBytes:], uint64(chunk)<<32|uint64(r.seqs[block]))
}

// await waits until a block has finished its chunk.
func (r *resident) await(block int) error {
	done := r.lines.Bytes[(len(r.seqs)+block)*lineBytes:]
	var since time.Time
	for polls := 1; loadNumber(done) != r.seqs[block]; polls++ {
		switch {
		case polls%(1<<16) != 0: // reading the clock costs more than a poll
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > patience:
			_, err := r.streams[0].Done() // reports a fault
			return errors.Join(fmt.Errorf("block %d of the resident kernel has not finished a chunk in %v", block, patience), err)
		}
	}
	return nil
}

func (r *resident) wait() error {
	for block := range r.seqs {
		if err := r.await(block); err != nil {
			return err
		}
	}
	return nil
}

// stop stops the kernel.
func (r *resident) stop() error {
	if !r.runs {
		return nil
	}
	r.runs = false
	for block := range r.seqs {
		r.ring(block, stop)
	}
	for since := time.Now(); ; {
		done, err := r.streams[0].Done()
		if done || err != nil {
			return err
		}
		if time.Since(since) > patience {
			r.hung = true
			return fmt.Errorf("the resident kernel has not exited in %v: it ends with this process", patience)
		}
	}
}
