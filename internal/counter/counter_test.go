package counter

import (
	"sync"
	"testing"
)

// Who reads while another counts never sees a number fall, and in the end all of it.
func TestCountersAreReadWhileTheyCount(t *testing.T) {
	const most = 100_000
	var c Counter
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for last := uint64(0); last < most; {
				n := c.Load()
				if n < last {
					t.Errorf("%d after %d", n, last)
					return
				}
				last = n
			}
		})
	}
	for range most {
		c.Add(1)
	}
	readers.Wait()
	if n := c.Load(); n != most {
		t.Errorf("%d, want %d", n, most)
	}
}
