package gpu

import (
	"cmp"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/cuda"
)

// A GPU that runs another process's time slice finishes nothing meanwhile, like one that hangs. A chunk is
// late after a quarter of the timeout: the worker's further chunks go to the CPU then, and wait behind it, as
// chunks of a lane complete in order. (A gateway defers those with received ESP.) The GPU has timed out when it has
// finished younger chunks of other workers for as long as the timeout, since the chunk was older than that, or when the chunk is
// older than the limit.

// sharedLimit is the limit on a GPU that other processes may use. It bounds the delay of packets.
const sharedLimit = time.Second

// limitOf returns the limit of a chunk's age on a GPU: Options.Limit, or what the sharing of the GPU
// demands. On a GPU of its own, a kernel is never descheduled.
func (o Options) limitOf(s cuda.Sharing) time.Duration {
	if s.Mode == cuda.Exclusive {
		return max(o.Timeout, o.Limit)
	}
	return max(o.Timeout, cmp.Or(o.Limit, sharedLimit))
}

// progress is the time of submission of the youngest chunk that a device has finished, by batch.Clock, to
// progressUnit. Its workers share it.
type progress struct{ youngest atomic.Int64 }

const progressUnit = time.Millisecond

// finished records a chunk. It stores seldom, as all workers read the word.
func (p *progress) finished(submitted time.Duration) {
	if submitted-time.Duration(p.youngest.Load()) >= progressUnit {
		p.youngest.Store(int64(submitted))
	}
}

// lateness is the time that the device has spent on younger chunks since a chunk became overdue.
type lateness struct {
	seen   time.Duration // progress of the device at the last poll
	worked time.Duration // units in which the device finished younger chunks
}

// waits reports whether to wait for an unfinished chunk on the GPU.
func (e *Engine) waits(f *flight) bool {
	age := batch.Clock() - max(f.submitted, f.ageStart)
	e.setLate(age > e.timeout/4)
	switch {
	case age <= e.timeout:
		return true
	case age > e.limit:
		return false
	}
	if p := time.Duration(e.state.progress.youngest.Load()); p-max(f.late.seen, f.submitted) >= progressUnit {
		f.late.seen = p
		f.late.worked += progressUnit
	}
	return f.late.worked < e.timeout
}

// setLate sets whether the oldest chunk on the GPU is late.
func (e *Engine) setLate(late bool) {
	switch {
	case late && !e.late:
		e.kernel.late.Add(1)
	case !late && e.late:
		e.kernel.late.Add(-1)
	}
	e.late = late
}

// check returns an error of the driver if a chunk is late: a kernel's fault ends the wait for it.
func (k *kernel) check() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.running || k.state.late.Load() == 0 {
		return nil
	}
	return k.d.ctx.Do(func() error {
		_, err := k.stream.Done()
		return err
	})
}

// timeoutError describes a chunk that is not waited for.
func (e *Engine) timeoutError(f *flight) error {
	if f.late.worked >= e.timeout {
		return fmt.Errorf("GPU timeout: %d packets not finished while the GPU worked for %v on others", f.chunk.N, e.timeout)
	}
	return fmt.Errorf("GPU timeout: %d packets not finished within %v", f.chunk.N, max(e.timeout, e.limit))
}
