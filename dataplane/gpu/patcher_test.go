package gpu

import (
	"testing"

	"github.com/warproute/warproute/fib"
)

// Packets that wait for a neighbour are tried again when the device has heard of
// it: what the base knows before does not help them.
func TestTheGenerationMovesWhenTheDeviceHasAChange(t *testing.T) {
	base, h := fib.New(1), &health{}
	takes := make(chan struct{})
	p, err := newPatcher(h, func() error { return nil }, func([]patch) error { <-takes; return nil }, base.Retry)
	if err != nil {
		t.Fatal(err)
	}
	base.Follow(&tables{health: h, patcher: p})
	base.SetAdjacency(1, 0, 0x0200000000bb)
	base.Bump()
	before := base.Generation()
	close(takes)
	p.settle()
	if base.Generation() == before {
		t.Error("a packet that was tried while the change was on its way waits on")
	}
	p.close()
}
