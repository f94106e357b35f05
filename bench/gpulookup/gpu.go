package gpulookup

import (
	"errors"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/lookup/device"
)

// gpu is a device, with the table and room for columns on it. All but opening and
// closing is done with its context current.
type gpu struct {
	*device.GPU
	module  *cuda.Module    // the kernels
	atRest  *cuda.Module    // the launched ones, for a table at rest
	streams [4]*cuda.Stream // over which chunks go by turns

	image                      *cuda.Memory
	addresses, lowers, results *cuda.Memory

	hung bool // a kernel does not end: freeing anything would wait for it for ever
}

// openGPU opens the first device. On error there is nothing to close.
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
		if g.atRest, err = g.Module(ptxAtRest); err != nil {
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

// close frees what was made.
func (g *gpu) close() error {
	if g.hung {
		return nil
	}
	return g.Close()
}

// load copies a table's image to the device, and takes room for columns there.
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

// everywhere is how many blocks of a kernel fill the device.
func (g *gpu) everywhere(f *cuda.Function, threads int) (uint32, error) {
	blocks, err := f.BlocksPerMultiprocessor(threads, 0)
	return uint32(blocks * g.Info.Multiprocessors), err
}

// settle waits for all streams.
func (g *gpu) settle() error {
	for _, s := range g.streams {
		if err := s.Synchronize(); err != nil {
			return err
		}
	}
	return nil
}
