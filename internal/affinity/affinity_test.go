package affinity

import (
	"runtime"
	"slices"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// A CPU that the affinity of the process lacks, as an isolated one, may be named; one that does not exist may not.
func TestUsable(t *testing.T) {
	all, err := CPUs()
	require.NoError(t, err)
	restore, err := Pin(all[0])
	require.NoError(t, err)
	defer restore()
	got, err := Usable([]int{1023, all[len(all)-1], all[0]})
	require.NoError(t, err)
	if want := slices.Compact([]int{all[0], all[len(all)-1]}); !slices.Equal(got, want) {
		t.Errorf("usable: %v, want %v", got, want)
	}
}

// Checks of CPUs leave no thread behind that is pinned to them.
func TestUsablePinsNoOtherGoroutine(t *testing.T) {
	all, err := CPUs()
	require.NoError(t, err)
	for range 20 {
		if !permitted(all[0]) {
			t.Fatalf("CPU %d is not permitted", all[0])
		}
	}
	for range 100 {
		cpus := make(chan []int)
		go func() {
			runtime.Gosched()
			got, _ := CPUs()
			cpus <- got
		}()
		if got := <-cpus; !slices.Equal(got, all) {
			t.Fatalf("a goroutine runs on a thread that is pinned to %v", got)
		}
	}
}
