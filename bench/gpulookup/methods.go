package gpulookup

import (
	"fmt"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/lookup/device"
)

// method is a transfer method. prepare, and collect, which brings the results to the host and is called
// after errors, too, are not timed.
type method struct {
	name  string
	chunk int     // addresses; 0: all at once
	limit float64 // billions of addresses per second

	prepare func(w *workload, look bool) error
	pass    func() error // starts lookups of all addresses
	wait    func() error // waits for the passes
	collect func() error
}

func (w *method) String() string {
	if w.chunk == 0 {
		return w.name
	}
	return fmt.Sprintf("%s, chunks of %d Ki", w.name, w.chunk>>10)
}

// methods returns all transfer methods; the first one is device.
func (b *bench) methods() ([]*method, error) {
	l, err := b.newLaunched(b.module)
	if err != nil {
		return nil, err
	}
	rest, err := b.newLaunched(b.noncoherent)
	if err != nil {
		return nil, err
	}
	r, err := b.newResident(ResidentChunks)
	if err != nil {
		return nil, err
	}
	return []*method{
		l.device("device"), rest.device("device, constant table"), l.copied(largeChunk), l.mapped(largeChunk), l.mapped(smallChunk), r.method(),
	}, nil
}

// launched is the state of the methods that launch kernels.
type launched struct {
	*bench
	launch *cuda.Launch
	params device.Params
	blocks uint32 // blocks that fill the device
	load   *workload
	look   bool
}

func (b *bench) newLaunched(m *cuda.Module) (*launched, error) {
	f, err := m.Function(b.family.look)
	if err != nil {
		return nil, err
	}
	l := &launched{bench: b}
	if l.blocks, err = b.everywhere(f, threads); err != nil {
		return nil, err
	}
	l.launch, err = cuda.NewLaunch(f, &l.params)
	if err != nil {
		return nil, err
	}
	l.launch.Block.X = threads
	return l, nil
}

// onHost returns a workload's columns in host memory; without lookups there is no image.
func (b *bench) onHost(w *workload, look bool) device.Columns {
	c := device.Columns{Addresses: w.addresses.Ptr(), Hops: b.hops.Ptr()}
	if w.lower {
		c.Lowers = w.lowers.Ptr()
	}
	if look {
		c.Image = b.image.Ptr()
	}
	return c
}

// onDevice returns the columns in device memory.
func (b *bench) onDevice() device.Columns {
	c := device.Columns{Image: b.image.Ptr(), Addresses: b.addresses.Ptr(), Hops: b.results.Ptr()}
	if b.lower {
		c.Lowers = b.lowers.Ptr()
	}
	return c
}

// start launches lookups of n addresses from first on, with at most as many blocks as fill the
// device: more would congest PCIe.
func (l *launched) start(s *cuda.Stream, first, n int) error {
	return l.startWith(l.blocks, s, first, n)
}

func (l *launched) startWith(blocks uint32, s *cuda.Stream, first, n int) error {
	l.params.First, l.params.N = uint32(first), uint32(n)
	l.launch.Grid.X = min(uint32(n/(threads*each)), blocks)
	return l.launch.Enqueue(s)
}

// rounds is the number of waves of blocks: with a single one, multiprocessors that finish early
// would idle.
const rounds = 4

// chunks calls f for each chunk, with the streams round-robin. A chunk always has the same stream,
// so passes are ordered.
func (l *launched) chunks(size int, f func(s *cuda.Stream, first, n int) error) error {
	for i := 0; i*size < l.load.n; i++ {
		first := i * size
		if err := f(l.streams[i%len(l.streams)], first, min(size, l.load.n-first)); err != nil {
			return err
		}
	}
	return nil
}

func nothing() error { return nil }

func (l *launched) device(name string) *method {
	s := l.streams[0]
	return &method{
		name: name,
		prepare: func(w *workload, _ bool) error {
			l.load, l.params.Columns = w, l.onDevice()
			if err := s.CopyToDevice(l.addresses.Ptr(), w.addresses.HostMemory, 0, w.n*w.bytes); err != nil {
				return err
			}
			if w.lower {
				if err := s.CopyToDevice(l.lowers.Ptr(), w.lowers.HostMemory, 0, w.n*lowerBytes); err != nil {
					return err
				}
			}
			if err := s.Fill(l.results.Ptr(), poison, l.results.Size()); err != nil {
				return err
			}
			return s.Synchronize()
		},
		pass: func() error { return l.startWith(rounds*l.blocks, s, 0, l.load.n) },
		wait: s.Synchronize,
		collect: func() error {
			if err := s.CopyToHost(l.bench.hops.HostMemory, 0, l.results.Ptr(), l.load.n*hopBytes); err != nil {
				return err
			}
			return s.Synchronize()
		},
	}
}

func (l *launched) copied(size int) *method {
	return &method{
		name: "copied", chunk: size,
		prepare: func(w *workload, look bool) error {
			l.load, l.look, l.params.Columns = w, look, l.onDevice()
			if w.lower {
				l.params.Columns.Lowers = w.lowers.Ptr() // read in place
			}
			if err := l.streams[0].Fill(l.results.Ptr(), poison, l.results.Size()); err != nil {
				return err
			}
			return l.streams[0].Synchronize()
		},
		pass: func() error {
			return l.chunks(size, func(s *cuda.Stream, first, n int) error {
				w := l.load
				if err := s.CopyToDevice(l.addresses.Ptr().Add(first*w.bytes), w.addresses.HostMemory, first*w.bytes, n*w.bytes); err != nil {
					return err
				}
				if l.look {
					if err := l.start(s, first, n); err != nil {
						return err
					}
				}
				return s.CopyToHost(l.bench.hops.HostMemory, first*hopBytes, l.results.Ptr().Add(first*hopBytes), n*hopBytes)
			})
		},
		wait:    l.gpu.wait,
		collect: nothing,
	}
}

func (l *launched) mapped(size int) *method {
	return &method{
		name: "mapped", chunk: size,
		prepare: func(w *workload, look bool) error {
			l.load, l.params.Columns = w, l.onHost(w, look)
			return nil
		},
		pass:    func() error { return l.chunks(size, l.start) },
		wait:    l.gpu.wait,
		collect: nothing,
	}
}
