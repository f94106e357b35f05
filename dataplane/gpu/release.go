package gpu

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/lookup/trie"
)

// While the kernel is parked, the device can do without the images of the lookup tables, which are most of
// its memory. The host's table has all words, so that a later copy and the patches after it are complete.

// memoryState is whether the tables of a kernel's device are released.
type memoryState struct {
	released bool                  // under kernel.mu
	refused  atomic.Pointer[error] // why they could not be restored, nil since they were
}

// release releases the tables of a parked kernel, if the options demand it.
func (k *kernel) release() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running || k.memory.released || !k.d.options.ReleaseMemory {
		return nil
	}
	k.memory.released = true
	return k.d.releaseTables()
}

// fullyParked reports whether the kernel is parked, with its tables released if the options demand it.
func (k *kernel) fullyParked() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.running && (k.memory.released || !k.d.options.ReleaseMemory)
}

// restore restores released tables. k.mu is held.
func (k *kernel) restore() error {
	if !k.memory.released {
		return nil
	}
	if err := k.d.restoreTables(); err != nil {
		k.memory.refused.Store(&err)
		return err
	}
	k.memory.released = false
	k.memory.refused.Store(nil)
	return nil
}

// restoreInterval is the time between two attempts to restore tables.
const restoreInterval = time.Second

// wait waits until the next attempt, or until the controller is to stop. It returns false at once if err is a
// failure of the device.
func (c *controller) wait(err error) bool {
	if !errors.Is(err, cuda.OutOfMemory) || !c.k.d.state.ok() {
		return false
	}
	select {
	case <-c.stopping:
	case <-time.After(restoreInterval):
	}
	return true
}

// releaseTables frees the images. The kernel must not run until restoreTables.
func (d *Device) releaseTables() error {
	for i := range d.tables.images {
		im := &d.tables.images[i]
		im.mu.Lock()
		im.released = true
		im.mu.Unlock()
	}
	d.tables.patcher.drain() // patches of the images
	return d.ctx.Do(func() error {
		var errs []error
		for i := range d.tables.images {
			for k := range d.tables.images[i].buffers {
				errs = append(errs, d.tables.images[i].buffers[k].free())
			}
		}
		return errors.Join(errs...)
	})
}

// restoreTables allocates released images and copies the tables. If there is too little memory, they stay
// released.
func (d *Device) restoreTables() error {
	var buffers [len(d.tables.images)][2]imageBuffer
	var freed error
	err := d.ctx.Do(func() (err error) {
		for i := range buffers {
			for k := range buffers[i] {
				if buffers[i][k], err = d.newBuffer(d.tables.images[i].buffers[k].words); err != nil {
					freed = freeBuffers(buffers[:])
					return fmt.Errorf("allocate the %s table: %w", d.tables.images[i].family, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		return errors.Join(err, freed)
	}
	for i := range buffers {
		if err := d.tables.images[i].restore(buffers[i]); err != nil {
			d.state.fail(err)
		}
	}
	d.tables.patcher.drain()
	return d.state.err()
}

func freeBuffers(all [][2]imageBuffer) error {
	var errs []error
	for i := range all {
		for _, b := range all[i] {
			if b.free != nil {
				errs = append(errs, b.free())
			}
		}
	}
	return errors.Join(errs...)
}

// restore copies the table to new buffers. The table's writer waits meanwhile in its next change. No
// generation is needed: no lookup runs.
func (im *image) restore(buffers [2]imageBuffer) error {
	im.mu.Lock()
	defer im.mu.Unlock()
	im.buffers, im.active, im.released = buffers, 0, false
	words := make([]uint32, trie.FirstNode) // without routes
	if im.source != nil {
		words = im.source[:im.end]
	}
	if len(words) > buffers[0].words {
		im.failFull(len(words))
		return nil
	}
	im.tables.patcher.add(patch{At: im.pointerAt, Word: uint64(buffers[0].at), Count: 1, Bytes: 8})
	return buffers[0].write(words)
}
