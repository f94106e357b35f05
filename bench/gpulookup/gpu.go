package gpulookup

import (
	"errors"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/lookup/device"
)

// gpu is a device with a table and buffers for columns. Its methods except close need its context
// to be current.
type gpu struct {
	*device.GPU
	module      *cuda.Module    // all kernels
	noncoherent *cuda.Module    // launched kernels for a constant table
	streams     [4]*cuda.Stream // used round-robin

	image                      *cuda.Memory
	addresses, lowers, results *cuda.Memory

	hung bool // a kernel does not exit; freeing its memory would block forever
}

// openGPU opens the first device.
func openGPU(driver string) (*gpu, error) {
	opened, err := device.OpenGPU(driver)
	if err != nil {
		return nil, err
	}
	g := &gpu{GPU: opened}
	err = g.Context.Do(func() error {
		if g.module, err = g.Module(ptx); err != nil {
			return err
		}
		if g.noncoherent, err = g.Module(ptxNoncoherent); err != nil {
			return err
		}
		for i := range g.streams {
			if g.streams[i], err = g.Stream(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// close frees all resources.
func (g *gpu) close() error {
	if g.hung {
		return nil
	}
	return g.Close()
}

// load copies a table's image to the device and allocates columns there.
func (b *bench) load(image []uint32) (err error) {
	if b.image, err = b.Copy(image); err != nil {
		return err
	}
	n := len(b.hops.Bytes) / hopBytes
	if b.addresses, err = b.Alloc(n * b.bytes); err != nil {
		return err
	}
	if b.lower {
		if b.lowers, err = b.Alloc(n * lowerBytes); err != nil {
			return err
		}
	}
	b.results, err = b.Alloc(n * hopBytes)
	return err
}

// everywhere returns the number of blocks of a kernel that fill the device.
func (g *gpu) everywhere(f *cuda.Function, threads int) (uint32, error) {
	blocks, err := f.BlocksPerMultiprocessor(threads, 0)
	return uint32(blocks * g.Info.Multiprocessors), err
}

// wait waits for all streams.
func (g *gpu) wait() error {
	for _, s := range g.streams {
		if err := s.Synchronize(); err != nil {
			return err
		}
	}
	return nil
}
