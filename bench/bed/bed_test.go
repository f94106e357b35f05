package bed

import (
	"slices"
	"strings"
	"testing"

	"github.com/warproute/warproute/dataplane/gpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/testutil"
)

// No card shares a core with a worker or another card, and who asks for more than there
// are is told what to do.
func TestCardsHaveCoresOfTheirOwn(t *testing.T) {
	cpus, err := affinity.CPUs()
	if err != nil {
		t.Fatal(err)
	}
	n := len(cpus)
	for workers := 1; workers <= n; workers++ {
		w, c, err := cores(Config{Workers: workers, Cards: n - workers})
		if err != nil {
			t.Fatal(err)
		}
		all := slices.Sorted(slices.Values(slices.Concat(w, c)))
		if len(w) != workers || !slices.Equal(all, cpus) {
			t.Errorf("of cores %v, workers have %v and cards %v", cpus, w, c)
		}
		if alone, _, _ := cores(Config{Workers: workers}); !slices.Equal(alone, w) {
			t.Errorf("workers have cores %v, and beside cards %v", alone, w)
		}
	}
	if w, _, err := cores(Config{Workers: 2 * n}); err != nil || len(w) != 2*n {
		t.Errorf("%d workers without cards share cores: got %v, %v", 2*n, w, err)
	}
	if err := (Config{Workers: n, Cards: 1}).Check(); err == nil || !strings.Contains(err.Error(), "fewer workers") {
		t.Errorf("%d workers and a card on %d cores: got %v", n, n, err)
	}
}

// A bed has as many GPUs as it was asked for, or none is made.
func TestEveryGPUIsUsed(t *testing.T) {
	lib := testutil.FakeGPU(t, "../../cuda/testdata/fakecuda.c", "") // two, which have none of the kernels
	c := Config{Workers: 1, Driver: lib, Chunks: 1}
	for c.GPUs = range 4 {
		if err := c.Check(); (err != nil) != (c.GPUs > 2) || err != nil && !strings.Contains(err.Error(), "3 are asked for, and the CUDA driver has 2") {
			t.Errorf("%d GPUs of 2: %v", c.GPUs, err)
		}
		_, _, err := c.OnGPUs(fib.New(1), gpu.Options{}, nil)()
		want := []string{"over 0 GPUs", "use GPU 0: ", "; use GPU 1: ", "has 2"}[c.GPUs]
		if err == nil || !strings.Contains(err.Error(), want) || c.GPUs == 1 && strings.Contains(err.Error(), "GPU 1") {
			t.Errorf("%d GPUs that cannot be used: %v", c.GPUs, err)
		}
	}
}

// A GPU that was late and is used again spoils a measurement; one that is out says so itself.
func TestAGPUThatWasLate(t *testing.T) {
	fine, late, out := gpu.State{}, gpu.State{Number: 1, Timeouts: 2, Returns: 2, ByCPU: 7}, gpu.State{Number: 2, Timeouts: 1, Outage: &gpu.Outage{}}
	if err := lateness([]gpu.State{fine, out}); err != nil {
		t.Errorf("none was late and is back: %v", err)
	}
	if err := lateness([]gpu.State{fine, late, out}); err == nil || err.Error() != "GPU 1 was late 2 times, and the CPU decided for it on 7 chunks: measure again" {
		t.Errorf("one was: %v", err)
	}
}
