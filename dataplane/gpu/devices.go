package gpu

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
)

// Devices are the GPUs of a host that serve its workers, each by turns. One that
// fails takes its own workers to the CPU, and no others.
type Devices struct {
	All      []*Device
	Unusable []error // say of each GPU that could not be opened why not
	Chunks   int     // that each of the workers may have in flight
	turn     int     // whose engine is next
}

// OpenAll opens the GPUs that the driver shows, up to one for each worker, or as many as
// o.GPUs says, and brings the forwarding base to each, which nobody may change meanwhile;
// afterwards the copies follow. It is an error if there is none that can be used, or fewer
// than o.GPUs, or if there is no room for o.Workers.
func OpenAll(base *fib.FIB, o Options) (*Devices, error) {
	found, err := find(o.Library, o.GPUs)
	if err != nil {
		return nil, err
	}
	s, each := &Devices{Chunks: o.Chunks}, o
	each.Workers, each.Chunks = min(o.Workers, 1), o.leastChunks()
	for number := range found {
		if o.GPUs == 0 && o.Workers > 0 && len(s.All) == o.Workers {
			break
		}
		d, err := open(found[number], number, base, each)
		if err != nil {
			s.Unusable = append(s.Unusable, err)
		} else {
			s.All = append(s.All, d)
		}
	}
	if err := s.fit(o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// find returns the first n of the GPUs that the driver shows, or, where n is 0, all.
func find(library string, n int) ([]*cuda.Device, error) {
	driver, err := cuda.Open(library)
	if err != nil {
		return nil, err
	}
	if n > 0 {
		return driver.FirstN(n)
	}
	return driver.Devices()
}

// leastChunks are those of a worker where there is little room.
func (o Options) leastChunks() int { return cmp.Or(o.LeastChunks, o.Chunks) }

// room is how many workers with so many chunks each the devices can serve.
func (s *Devices) room(chunks int) (n int) {
	for _, d := range s.All {
		n += d.room(chunks)
	}
	return n
}

// fit tells whether there are as many as were asked for, and room for the workers, and finds
// out for how many chunks of each.
func (s *Devices) fit(o Options) error {
	for s.Chunks > o.leastChunks() && o.Workers > s.room(s.Chunks) {
		s.Chunks--
	}
	var err error
	switch {
	case len(s.All) == 0 && len(s.Unusable) == 0:
		return errors.New("use a GPU: the driver shows none")
	case len(s.All) < max(1, o.GPUs):
	case o.Workers > s.room(s.Chunks):
		err = fmt.Errorf("have %d workers served with %d chunks each: there is room for %d on %d of the GPUs; set fewer workers",
			o.Workers, s.Chunks, s.room(s.Chunks), len(s.All))
	default:
		return nil
	}
	for _, why := range s.Unusable {
		if err == nil {
			err = why
		} else {
			err = fmt.Errorf("%w; %w", err, why)
		}
	}
	return err
}

// NewEngine returns the engine of one more worker on the device whose turn it is and
// that has room, as Device.NewEngine does.
func (s *Devices) NewEngine(umem []byte, chunks, size int, fallback *cpu.Engine) (*Engine, error) {
	d := s.All[s.turn%len(s.All)]
	for range s.All {
		d = s.All[s.turn%len(s.All)]
		s.turn++
		if d.room(chunks) > 0 {
			break
		}
	}
	return d.NewEngine(umem, chunks, size, fallback)
}

// States are the devices as of now.
func (s *Devices) States() (all []State) {
	for _, d := range s.All {
		all = append(all, d.State())
	}
	return all
}

// Err is why devices, or engines on them, are out, nil while none is.
func (s *Devices) Err() error {
	var errs []error
	for _, d := range s.All {
		if err := d.Err(); err != nil {
			errs = append(errs, fmt.Errorf("GPU %d: %w", d.number, err))
		}
	}
	return errors.Join(errs...)
}

// Close closes the devices, as Device.Close does. Memory that is registered is
// registered for all of them, so nothing is given back before all have ended.
func (s *Devices) Close() error {
	var errs []error
	for _, d := range s.All {
		errs = append(errs, d.halt())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, d := range s.All {
		errs = append(errs, d.release())
	}
	return errors.Join(errs...)
}
