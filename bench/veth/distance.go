package veth

import (
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/internal/affinity"
)

// Distance is the minimum and maximum round trip of a cache line between the cores of sender and router.
// Frames and socket buffers cross it too.
type Distance struct{ Min, Max time.Duration }

// measure measures some thousand round trips.
func (d *Distance) measure() error {
	const trips = 20_000
	var line atomic.Uint32
	pinned, done := make(chan error), make(chan struct{})
	go func() {
		defer close(done)
		restore, err := affinity.Pin(routerCore)
		pinned <- err
		if err != nil {
			return
		}
		defer restore()
		for i := uint32(0); i < 2*trips; i += 2 {
			for line.Load() != i+1 {
			}
			line.Store(i + 2)
		}
	}()
	if err := <-pinned; err != nil {
		return err
	}
	restore, err := affinity.Pin(senderCore)
	if err != nil {
		return err
	}
	defer restore()
	start := time.Now()
	for i := uint32(0); i < 2*trips; i += 2 {
		line.Store(i + 1)
		for line.Load() != i+2 {
		}
	}
	took := time.Since(start) / trips
	<-done
	if d.Min == 0 || took < d.Min {
		d.Min = took
	}
	d.Max = max(d.Max, took)
	return nil
}
