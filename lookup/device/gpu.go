package device

import (
	"errors"
	"fmt"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/internal/hostmem"
)

// GPU is an open device and its resources. Its methods except Close must run in its context
// (Context.Do), on one goroutine at a time.
type GPU struct {
	Context *cuda.Context
	Info    cuda.DeviceInfo
	Version cuda.Version // CUDA version of the driver

	undo []func() error
}

// OpenGPU opens the driver's first device. driver is a file name, "" for the installed driver.
func OpenGPU(driver string) (*GPU, error) {
	d, err := cuda.Open(driver)
	if err != nil {
		return nil, err
	}
	devices, err := d.FirstN(1)
	if err != nil {
		return nil, err
	}
	g := &GPU{Version: d.Version()}
	if g.Info, err = devices[0].Info(); err != nil {
		return nil, err
	}
	g.Context, err = devices[0].Retain()
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Close waits for running kernels and frees all resources in reverse order.
func (g *GPU) Close() error {
	err := g.Context.Do(func() (err error) {
		for i := len(g.undo) - 1; i >= 0; i-- {
			err = errors.Join(err, g.undo[i]())
		}
		g.undo = nil
		return err
	})
	return errors.Join(err, g.Context.Close())
}

// Module loads a module of kernels.
func (g *GPU) Module(ptx []byte) (*cuda.Module, error) {
	m, err := g.Context.Load(ptx)
	if err == nil {
		g.undo = append(g.undo, m.Close)
	}
	return m, err
}

// Stream creates a stream.
func (g *GPU) Stream() (*cuda.Stream, error) {
	s, err := g.Context.NewStream(0)
	if err == nil {
		g.undo = append(g.undo, s.Close)
	}
	return s, err
}

// Pinned is host memory that the device accesses in place.
type Pinned struct {
	Bytes []byte
	*cuda.HostMemory
}

// Pin allocates pinned memory, on huge pages if available.
func (g *GPU) Pin(bytes int) (*Pinned, error) {
	mem, err := hostmem.MapHuge(bytes)
	if err != nil {
		return nil, err
	}
	g.undo = append(g.undo, mem.Close)
	host, err := g.Context.Register(mem.Bytes)
	if err != nil {
		return nil, err
	}
	g.undo = append(g.undo, host.Close)
	return &Pinned{mem.Bytes[:bytes], host}, nil
}

// Alloc allocates device memory.
func (g *GPU) Alloc(bytes int) (*cuda.Memory, error) {
	m, err := g.Context.Alloc(bytes)
	if err == nil {
		g.undo = append(g.undo, m.Close)
	}
	return m, err
}

// Copy copies a table's image to new device memory.
func (g *GPU) Copy(image []uint32) (*cuda.Memory, error) {
	m, err := g.Alloc(len(image) * 4)
	if err == nil {
		err = m.Write(0, bytesOf(image))
	}
	if err != nil {
		return nil, fmt.Errorf("copy a table to the GPU: %w", err)
	}
	return m, nil
}
