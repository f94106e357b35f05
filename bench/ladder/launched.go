package ladder

import (
	"errors"
	"slices"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/lookup/device"
)

// threads is the number of threads per block. layout.h, generated from it, is for ladder.cu.
const (
	threads  = 64
	warpSize = 32
)

// Bytes of a packet in buffers.
const (
	frameBytes     = 8
	resultBytes    = 8
	headerBytes    = 64
	rewrittenBytes = 32
	headroom       = 2 // a header begins before the Ethernet header
)

// slot holds one chunk of an engine that calls the driver for each chunk.
type slot interface {
	// submit enqueues the work of a chunk.
	submit(c *batch.Chunk) error
	// done reports whether the work is done. Then it has written the results and the frames.
	done(c *batch.Chunk) (bool, error)
	// measure runs the work of a chunk to its end, with events before its first kernel and after its last.
	measure(c *batch.Chunk, start, end *cuda.Event) error
}

// launched is an engine that calls the driver for each chunk. It implements dataplane.Engine. Its
// user is locked to a thread with the context current.
type launched struct {
	gpu           *device.GPU
	module        *cuda.Module
	tables        tables
	mem           []byte
	umem          cuda.DevicePtr
	before, after *cuda.Event // of kernels
	slots         []slot
	chunks        []*batch.Chunk // by slot; nil: free
	err           error          // of the first failed call
	stop          func()         // ends a resident kernel; nil: none
	undo          []func() error
}

// openLaunched returns an engine with slots that newSlot makes.
func openLaunched(b *bench, mem []byte, slots int, newSlot func(l *launched) (slot, error)) (*engine, error) {
	l := &launched{mem: mem}
	var err error
	if l.gpu, err = device.OpenGPU(b.Driver); err != nil {
		return nil, err
	}
	if err = l.prepare(b, slots, newSlot); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return &engine{Engine: l, failed: func() error { return l.err }, kernels: l.kernels, close: l.close}, nil
}

func (l *launched) prepare(b *bench, slots int, newSlot func(l *launched) (slot, error)) (err error) {
	if l.module, err = l.gpu.Module(ptx); err != nil {
		return err
	}
	if l.tables, err = upload(l.gpu, b.base); err != nil {
		return err
	}
	memory, err := l.gpu.Context.Register(l.mem)
	if err != nil {
		return err
	}
	l.undo = append(l.undo, memory.Close)
	l.umem = memory.Ptr()
	if l.before, err = l.event(cuda.EventDefault); err != nil {
		return err
	}
	if l.after, err = l.event(cuda.EventDefault); err != nil {
		return err
	}
	for range slots {
		s, err := newSlot(l)
		if err != nil {
			return err
		}
		l.slots = append(l.slots, s)
	}
	l.chunks = make([]*batch.Chunk, slots)
	return nil
}

func (l *launched) event(flags cuda.EventFlags) (*cuda.Event, error) {
	e, err := l.gpu.Context.NewEvent(flags)
	if err == nil {
		l.undo = append(l.undo, e.Close)
	}
	return e, err
}

// launch returns a launch of a kernel of the module.
func launch[T any](l *launched, name string, params *T) (*cuda.Launch, error) {
	f, err := l.module.Function(name)
	if err != nil {
		return nil, err
	}
	k, err := cuda.NewLaunch(f, params)
	if err == nil {
		k.Block.X = threads
	}
	return k, err
}

// blocks returns the number of blocks for n packets.
func blocks(n int) uint32 { return uint32((n + threads - 1) / threads) }

func (l *launched) close() (err error) {
	if l.stop != nil {
		l.stop()
	}
	if waited := l.gpu.Context.Synchronize(); l.err == nil { // for the work of chunks, also if a later call failed
		err = waited
	}
	for _, undo := range slices.Backward(l.undo) {
		err = errors.Join(err, undo())
	}
	return errors.Join(err, l.gpu.Close())
}

func (l *launched) Name() string   { return "gpu" }
func (l *launched) Quiesced() bool { return true }

// Submit implements dataplane.Engine. The caller has no more chunks in flight than there are slots.
func (l *launched) Submit(c *batch.Chunk) {
	i := slices.Index(l.chunks, nil)
	l.chunks[i] = c
	l.fail(l.slots[i].submit(c))
}

// Done implements dataplane.Engine. All chunks are done after an error.
func (l *launched) Done(c *batch.Chunk) bool {
	i := slices.Index(l.chunks, c)
	done, err := l.slots[i].done(c)
	l.fail(err)
	if l.err != nil || done {
		l.chunks[i] = nil
		return true
	}
	return false
}

func (l *launched) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// kernels returns the time of the kernels of a chunk on the device.
func (l *launched) kernels(c *batch.Chunk) (time.Duration, error) {
	if err := l.slots[0].measure(c, l.before, l.after); err != nil {
		return 0, err
	}
	return l.after.Since(l.before)
}
