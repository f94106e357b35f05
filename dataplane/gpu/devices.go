package gpu

import (
	"errors"
	"fmt"

	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
)

// Devices are the GPUs of a host that serve its workers, each by turns. One that
// fails takes its own workers to the CPU, and no others.
type Devices struct {
	All      []*Device
	Unusable []error // say of each GPU that could not be opened why not
	turn     int     // whose engine is next
}

// OpenAll opens the GPUs that the driver shows, up to one for each worker, as Open
// does; o.Number does not matter. It is an error if there is none that can be used,
// or if there is no room for o.Workers.
func OpenAll(base *fib.FIB, o Options) (*Devices, error) {
	found, err := find(o.Library)
	if err != nil {
		return nil, err
	}
	s, each := &Devices{}, o
	each.Workers = min(o.Workers, 1)
	for each.Number = range found {
		if o.Workers > 0 && len(s.All) == o.Workers {
			break
		}
		d, err := open(found[each.Number], base, each)
		if err != nil {
			s.Unusable = append(s.Unusable, err)
		} else {
			s.All = append(s.All, d)
		}
	}
	if err := s.fit(o.Workers, o.Chunks); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// fit tells whether there is room for so many workers.
func (s *Devices) fit(workers, chunks int) error {
	room := 0
	for _, d := range s.All {
		room += d.room(chunks)
	}
	var err error
	switch {
	case len(s.All) == 0 && len(s.Unusable) == 0:
		return errors.New("use a GPU: the driver shows none")
	case len(s.All) == 0:
	case workers > room:
		err = fmt.Errorf("have %d workers served with %d chunks each: there is room for %d on %d of the GPUs; set fewer workers", workers, chunks, room, len(s.All))
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
