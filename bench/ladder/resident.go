package ladder

import (
	"errors"
	"math"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/lookup/device"
)

// Launch shape of the resident kernel, and the size word that stops a block. layout.h, generated from them, is
// for ladder.cu.
const (
	residentThreads = 512
	residentScratch = 3712 // bytes of shared memory per warp
	residentPolled  = 256  // packets of a chunk whose warps all poll for the next one
	residentStop    = math.MaxUint32
)

// Offsets in a slot, as in fused.h.
const (
	residentDone        = 64
	residentDescriptors = 128
)

// residentParams is struct resident of fused.h.
type residentParams struct {
	Tables             tables
	Umem, Slots        cuda.DevicePtr
	SlotBytes, Results uint32
}

// resident is a slot that a block of a resident kernel serves: the kernel stays, and one block processes
// a whole chunk.
type resident struct {
	memory  []byte // of the slot
	results []byte
	stream  *cuda.Stream // of the kernel
	seq     uint32
	polled  uint32 // in vain
}

func openResident(b *bench, mem []byte, slots, size int) (*engine, error) {
	resultsAt := residentDescriptors + aligned(size*frameBytes+warpSize*frameBytes) // the last warp reads whole
	slotBytes := (resultsAt + size*resultBytes + 127) &^ 127
	var memory *device.Pinned
	var stream *cuda.Stream
	e, err := openLaunched(b, mem, slots, func(l *launched) (_ slot, err error) {
		if memory == nil {
			if memory, err = l.gpu.Pin(slots * slotBytes); err != nil {
				return nil, err
			}
			if stream, err = l.gpu.Stream(); err != nil {
				return nil, err
			}
		}
		s := memory.Bytes[len(l.slots)*slotBytes:][:slotBytes]
		return &resident{memory: s, results: s[resultsAt:], stream: stream}, nil
	})
	if err != nil {
		return nil, err
	}
	l := e.Engine.(*launched)
	e.kernels = nil // there is one for all chunks
	err = l.start(residentParams{Tables: l.tables, Umem: l.umem, Slots: memory.Ptr(), SlotBytes: uint32(slotBytes), Results: uint32(resultsAt)}, stream)
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

// start starts the resident kernel, which ends with the engine.
func (l *launched) start(p residentParams, stream *cuda.Stream) error {
	f, err := l.module.Function("resident_block")
	if err != nil {
		return err
	}
	const shared = residentThreads / warpSize * residentScratch
	if err := f.SetAttribute(cuda.MaxDynamicShared, shared); err != nil {
		return err
	}
	k, err := cuda.NewLaunch(f, &struct{ R residentParams }{p})
	if err != nil {
		return err
	}
	k.Grid.X, k.Block.X, k.Shared = uint32(len(l.slots)), residentThreads, shared
	if err := k.Enqueue(stream); err != nil {
		return err
	}
	l.stop = func() {
		for _, s := range l.slots {
			s.(*resident).ring(residentStop)
		}
	}
	return nil
}

// ring makes the next chunk of n packets visible to the block, or stops it.
func (s *resident) ring(n uint32) {
	s.seq++
	storeDoorbell(s.memory, uint64(s.seq)|uint64(n)<<32)
}

func (s *resident) submit(c *batch.Chunk) error {
	writeDescriptors(s.memory[residentDescriptors:], c.In[:c.N], uint16((s.seq+1)%0xffff+1))
	s.ring(uint32(c.N))
	return nil
}

func (s *resident) done(c *batch.Chunk) (bool, error) {
	if loadWord(s.memory[residentDone:]) != s.seq {
		if s.polled++; s.polled%polls == 0 {
			if ended, err := s.stream.Done(); err != nil || ended {
				return false, errors.Join(errors.New("the resident kernel ended"), err)
			}
		}
		return false, nil
	}
	copy(bytesOf(c.Out[:c.N]), s.results)
	return true, nil
}

func (s *resident) measure(*batch.Chunk, *cuda.Event, *cuda.Event) error {
	return errors.ErrUnsupported
}
