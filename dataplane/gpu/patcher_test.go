package gpu

import (
	"testing"

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
