package service

import (
	"sync"
	"time"
)

// background is a set of goroutines that end together.
type background struct {
	ending chan struct{} // closed when they should end
	wg     sync.WaitGroup
}

// every calls f at an interval, on one goroutine.
func (b *background) every(interval time.Duration, f func(now time.Time)) {
	b.wg.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-b.ending:
				return
			case now := <-tick.C:
				f(now)
			}
		}
	})
}
