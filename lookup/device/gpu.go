package device

import (
	"errors"
	"fmt"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/internal/pages"
)

// GPU is a device with what was made on it, which goes when it is closed. All but
// opening and closing is done with its context current (Context.Do), by one goroutine
// at a time.
type GPU struct {
	Context *cuda.Context
	Info    cuda.DeviceInfo
	Version cuda.Version // of CUDA, that the driver is for

	undo []func() error
}

// OpenGPU opens the first device that the driver shows; driver is its file, "" the
// installed one. An error says what is missing.
func OpenGPU(driver string) (*GPU, error) {
	d, err := cuda.Open(driver)
	if err != nil {
		return nil, err
	}
	first, err := d.First()
	if err != nil {
		return nil, err
	}
	g := &GPU{Version: d.Version()}
	if g.Info, err = first.Info(); err != nil {
		return nil, err
	}
	g.Context, err = first.Retain()
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Close frees what was made, last things first. It waits for what runs.
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

// Module loads kernels.
func (g *GPU) Module(ptx []byte) (*cuda.Module, error) {
	m, err := g.Context.Load(ptx)
	if err == nil {
		g.undo = append(g.undo, m.Close)
	}
	return m, err
}

// Stream returns a stream.
func (g *GPU) Stream() (*cuda.Stream, error) {
	s, err := g.Context.NewStream(0)
	if err == nil {
		g.undo = append(g.undo, s.Close)
	}
	return s, err
}

// Pinned is memory of the host that the device reads and writes in place.
type Pinned struct {
	Bytes []byte
	*cuda.HostMemory
}

// Pin returns so many bytes, on huge pages where the kernel has some.
func (g *GPU) Pin(bytes int) (*Pinned, error) {
	mem, err := pages.Map(bytes)
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

// Alloc returns so many bytes of the device's memory.
func (g *GPU) Alloc(bytes int) (*cuda.Memory, error) {
	m, err := g.Context.Alloc(bytes)
	if err == nil {
		g.undo = append(g.undo, m.Close)
	}
	return m, err
}

// Copy returns memory of the device with the words of a table's image.
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
