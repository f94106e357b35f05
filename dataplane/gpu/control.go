package gpu

import (
	"time"

	"github.com/warproute/warproute/batch"
)

const (
	controlInterval = 10 * time.Millisecond // between two ticks of the controller of a running kernel
	minAwakeBlocks  = 4                     // of a running kernel

	// Blocks that were needed within this many intervals stay awake, and a few more.
	awakeIntervals = 16
	spareBlocks    = 8

	// parkTimeout limits how long the CPU executes all chunks because the kernel is to park.
	parkTimeout = time.Millisecond
)

// controller launches the kernel of a device when a worker wants it, parks it when no worker has needed it for
// Options.Park, and puts blocks to sleep that the load does not need.
type controller struct {
	k        *kernel
	after    time.Duration // Options.Park; 0: never
	stopping chan struct{}
	done     chan struct{}

	engines []*Engine // under k.mu
	chunks  uint64    // on the GPU so far, if no engine chooses
	used    time.Time // when the kernel was needed last
	recent  int       // blocks that were in use lately, as the highest number
}

// startController starts the controller of a kernel.
func startController(k *kernel, after time.Duration) *controller {
	c := &controller{k: k, after: after, stopping: make(chan struct{}), done: make(chan struct{})}
	go c.run()
	return c
}

// close ends the controller.
func (c *controller) close() {
	close(c.stopping)
	<-c.done
}

func (c *controller) run() {
	defer close(c.done)
	ticker := time.NewTicker(controlInterval)
	defer ticker.Stop()
	for {
		select {
		case <-c.stopping:
			return
		case <-c.k.state.wanted:
			if err := c.k.wake(); err != nil && !c.wait(err) {
				c.k.d.state.fail(err)
			}
			c.used = time.Now()
			ticker.Reset(controlInterval)
		case <-ticker.C:
			c.tick(time.Now())
			if c.k.fullyParked() {
				ticker.Stop()
			}
		}
	}
}

// tick puts blocks to sleep, parks the kernel, and requests a launch of the home's kernel if that is parked.
func (c *controller) tick(now time.Time) {
	c.k.mu.Lock()
	if c.k.running {
		c.k.wakeHome() // again, if that failed, or if it has parked since
	}
	chunks, needed := uint64(0), c.k.servesTakers()
	for _, e := range c.engines {
		if e.chooser != nil {
			needed = needed || !e.chooser.Load.Easy(batch.Clock())
		} else {
			chunks += e.executed[ExecutedOnGPU].Load() + uint64(e.onGPU.Load())
		}
	}
	c.k.mu.Unlock()
	if needed || chunks != c.chunks || c.used.IsZero() {
		c.chunks, c.used = chunks, now
	}
	c.recent = max(c.k.pool.highest(), c.recent-max(1, c.recent/awakeIntervals))
	if err := c.k.check(); err != nil {
		c.k.d.state.fail(err)
	}
	c.k.mailbox.sleepBlocks(uint32(min(c.k.pool.blocks, max(minAwakeBlocks, c.recent+spareBlocks))), c.k.pool)
	if c.after > 0 && now.Sub(c.used) >= c.after {
		parked, err := c.k.park(parkTimeout)
		if err == nil && parked {
			err = c.k.release()
		}
		if err != nil {
			c.k.d.state.fail(err)
		}
		c.used = now
	}
}
