package gpu

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/fib"
)

// TestPatchesTriggerRetry: packets that wait for a neighbor are retried when the device has the patch.
func TestPatchesTriggerRetry(t *testing.T) {
	base, h := fib.New(1), &deviceState{}
	takes := make(chan struct{})
	p := got(newPatcher(h, func() error { return nil }, func([]patch) error { <-takes; return nil }, base.MarkChanged))(t)
	base.Follow(&tables{state: h, patcher: p})
	base.SetAdjacency(1, 0, 0x0200000000bb)
	base.Commit()
	before := base.Changes()
	close(takes)
	p.drain()
	if base.Changes() == before {
		t.Error("a packet that was tried while the change was on its way waits on")
	}
	p.close()
}

// TestLongPatchQueueTakesLinearTime: a queue of many patches is emptied in small batches, while others are added, in order. Moving the
// rest of the queue for each batch would copy about 500 GB.
func TestLongPatchQueueTakesLinearTime(t *testing.T) {
	const patches = 200_000
	var q patchQueue
	for i := range uint64(patches) {
		q.add(patch{Word: i})
	}
	start := time.Now()
	for i := range uint64(2 * patches) {
		if q.len() == 0 || q.first(1)[0].Word != i {
			t.Fatalf("the queue has %d patches, and not patch %d first", q.len(), i)
		}
		q.remove(1)
		if i < patches {
			q.add(patch{Word: patches + i})
		}
		if time.Since(start) > 10*time.Second { // it takes milliseconds
			t.Fatalf("%d of %d patches removed in %v", i, 2*patches, time.Since(start))
		}
	}
	if q.len() != 0 || cap(q.all) > 3*patches {
		t.Errorf("%d patches are left, in memory for %d; the longest queue had %d", q.len(), cap(q.all), patches)
	}
}

// TestStaleTablesMoveWorkersToTheCPU: until the patches are applied. Other processes' kernels can delay them;
// only a driver error or a long time is final.
func TestStaleTablesMoveWorkersToTheCPU(t *testing.T) {
	const timeout, limit = 10 * time.Millisecond, 10 * time.Second
	e, _, chunks := newRig(t, 2, time.Minute)
	applied := make(chan struct{})
	ended := make(chan error)
	go func() {
		ended <- e.state.awaitPatches(3, timeout, limit, func() bool {
			select {
			case <-applied:
				return true
			default:
				return false
			}
		}, func() error { return nil })
	}()
	for execute(t, e, chunks[0]) == "gpu" {
		time.Sleep(time.Millisecond)
	}
	if o := e.state.stale.Load(); o == nil || o.Why.Error() != "its tables are stale: 3 patches not applied within 10ms" || e.Name() != "cpu" {
		t.Errorf("the engine is %s, the tables: %+v", e.Name(), o)
	}
	close(applied)
	if err := <-ended; err != nil {
		t.Errorf("applied late: %v", err)
	}
	if by := execute(t, e, chunks[0]); by != "gpu" || e.Name() != "gpu" || !e.state.ok() {
		t.Errorf("with all patches: executed by %s, %v", by, e.state.err())
	}

	never, fine := func() bool { return false }, func() error { return nil }
	if err := e.state.awaitPatches(3, timeout, 2*timeout, never, fine); err == nil || !strings.Contains(err.Error(), "apply 3 table patches: not finished within 20ms") {
		t.Errorf("never applied: %v", err)
	}
	broken := errors.New("driver error")
	if err := e.state.awaitPatches(3, timeout, limit, never, func() error { return broken }); !errors.Is(err, broken) || e.state.stale.Load() != nil {
		t.Errorf("with a driver error: %v, stale: %+v", err, e.state.stale.Load())
	}
}
