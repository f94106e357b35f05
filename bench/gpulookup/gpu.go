package gpulookup

import (
	"errors"
	"fmt"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/internal/pages"
)

// gpu is a device, with the table and room for columns on it. All but opening and
// closing is done with its context current.
type gpu struct {
	context *cuda.Context
	info    cuda.DeviceInfo
	version string
	module  *cuda.Module    // the kernels
	atRest  *cuda.Module    // the launched ones, for a table at rest
	streams [4]*cuda.Stream // over which chunks go by turns

	image                      *cuda.Memory
	addresses, lowers, results *cuda.Memory

	undo []func() error
	hung bool // a kernel does not end: freeing anything would wait for it for ever
}

// openGPU opens the first device. On error there is nothing to close.
func openGPU(driver string) (*gpu, error) {
	d, err := cuda.Open(driver)
	if err != nil {
		return nil, err
	}
	device, err := d.First()
	if err != nil {
		return nil, err
	}
	g := &gpu{version: d.Version().String()}
	if g.info, err = device.Info(); err != nil {
		return nil, err
	}
	if g.context, err = device.Retain(); err != nil {
		return nil, err
	}
	err = g.context.Do(func() error {
		if g.module, err = g.context.Load(ptx); err != nil {
			return err
		}
		g.undo = append(g.undo, g.module.Close)
		if g.atRest, err = g.context.Load(ptxAtRest); err != nil {
			return err
		}
		g.undo = append(g.undo, g.atRest.Close)
		for i := range g.streams {
			if g.streams[i], err = g.context.NewStream(0); err != nil {
				return err
			}
			g.undo = append(g.undo, g.streams[i].Close)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// close frees what was made, last things first.
func (g *gpu) close() error {
	if g.hung {
		return nil
	}
	err := g.context.Do(func() (err error) {
		for i := len(g.undo) - 1; i >= 0; i-- {
			err = errors.Join(err, g.undo[i]())
		}
		return err
	})
	return errors.Join(err, g.context.Close())
}

// pinned is memory of the host that the device reads and writes in place.
type pinned struct {
	bytes []byte
	*cuda.HostMemory
}

// pin returns so many bytes, on huge pages where the kernel has some.
func (g *gpu) pin(bytes int) (*pinned, error) {
	mem, err := pages.Map(bytes)
	if err != nil {
		return nil, err
	}
	g.undo = append(g.undo, mem.Close)
	host, err := g.context.Register(mem.Bytes)
	if err != nil {
		return nil, err
	}
	g.undo = append(g.undo, host.Close)
	return &pinned{mem.Bytes[:bytes], host}, nil
}

// alloc returns so many bytes of the device's memory.
func (g *gpu) alloc(bytes int) (*cuda.Memory, error) {
	m, err := g.context.Alloc(bytes)
	if err == nil {
		g.undo = append(g.undo, m.Close)
	}
	return m, err
}

// load copies a table's image to the device, and takes room for columns there.
func (b *bench) load(image []uint32) (err error) {
	if b.image, err = b.alloc(len(image) * 4); err != nil {
		return fmt.Errorf("load the table: %w", err)
	}
	if err := b.image.Write(0, bytesOf(image)); err != nil {
		return fmt.Errorf("load the table: %w", err)
	}
	n := len(b.hops.bytes) / hopBytes
	if b.addresses, err = b.alloc(n * b.bytes); err != nil {
		return err
	}
	if b.lower {
		if b.lowers, err = b.alloc(n * lowerBytes); err != nil {
			return err
		}
	}
	b.results, err = b.alloc(n * hopBytes)
	return err
}

// everywhere is how many blocks of a kernel fill the device.
func (g *gpu) everywhere(f *cuda.Function, threads int) (uint32, error) {
	blocks, err := f.BlocksPerMultiprocessor(threads, 0)
	return uint32(blocks * g.info.Multiprocessors), err
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
