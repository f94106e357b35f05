package counter

import (
	"sync"
	"testing"
)

func TestReadersSeeCountersGrow(t *testing.T) {
	const most = 100_000
	var c, d Counter
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
	for range most / 2 {
		c.Add(1)
		AddPair(&c, &d, 1, 2)
	}
	readers.Wait()
	if c.Load() != most || d.Load() != most {
		t.Errorf("%d and %d, want %d", c.Load(), d.Load(), most)
	}
}
