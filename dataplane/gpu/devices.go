package gpu

import (
	"errors"
	"fmt"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
)

// Devices are the GPUs of a host, which serve its workers round-robin. A failure of one moves its own
// workers to the CPU, and no others.
type Devices struct {
	All      []*Device
	Unusable []error // errors of the GPUs that could not be opened

	// HostNumbers is why the host assigns the sequence numbers of ESP, and not the GPUs; nil: they do, or there is no gateway.
	HostNumbers error

	next int // index in All for the next engine
}

// OpenAll opens the visible GPUs, up to one per worker, or o.GPUs of them, and copies the FIB
// to each. The FIB must not change meanwhile; afterwards the copies follow it. No usable GPU, fewer than
// o.GPUs, and no capacity for o.Workers are errors.
func OpenAll(f *fib.FIB, o Options) (*Devices, error) {
	found, err := find(o.Library, o.GPUs)
	if err != nil {
		return nil, err
	}
	s := &Devices{}
	if o.Gateway != nil {
		usual := len(found) // number of GPUs that are opened if none fails
		if o.GPUs == 0 && o.Workers > 0 {
			usual = min(usual, o.Workers)
		}
		s.HostNumbers = cannotShare(found[:usual])
		o.HostNumbers = o.HostNumbers || s.HostNumbers != nil
	}
	for number := range found {
		if o.GPUs == 0 && o.Workers > 0 && len(s.All) == o.Workers {
			break
		}
		if len(s.All) > 0 && !o.HostNumbers {
			o.seqHome = s.All[0]
		}
		d, err := open(found[number], number, f, o)
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

// find returns the first n visible GPUs, or all if n is 0.
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

// room returns the number of workers that fit on the devices.
func (s *Devices) room() (n int) {
	for _, d := range s.All {
		n += d.room()
	}
	return n
}

// fit checks the number of GPUs and their capacity for the workers.
func (s *Devices) fit(o Options) error {
	var err error
	switch {
	case len(s.All) == 0 && len(s.Unusable) == 0:
		return errors.New("use a GPU: the driver has none")
	case len(s.All) < max(1, o.GPUs):
	case o.Workers > s.room():
		err = fmt.Errorf("%d workers: %d fit on %d GPUs; set fewer workers", o.Workers, s.room(), len(s.All))
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

// NewEngine returns an engine on the next device with capacity. Device.NewEngine has the parameters.
func (s *Devices) NewEngine(umem []byte, chunks, size int, fallback *cpu.Engine) (*Engine, error) {
	d := s.All[s.next%len(s.All)]
	for range s.All {
		d = s.All[s.next%len(s.All)]
		s.next++
		if d.room() > 0 {
			break
		}
	}
	return d.NewEngine(umem, chunks, size, fallback)
}

// States returns the states of the devices.
func (s *Devices) States() (all []State) {
	for _, d := range s.All {
		all = append(all, d.State())
	}
	return all
}

// Err returns the causes of the outages of devices and engines, nil without any.
func (s *Devices) Err() error {
	var errs []error
	for _, d := range s.All {
		if err := d.Err(); err != nil {
			errs = append(errs, fmt.Errorf("GPU %d: %w", d.number, err))
		}
	}
	return errors.Join(errs...)
}

// Close closes the devices, like Device.Close. Memory is registered for all of them, so all kernels end
// before the first resource is freed.
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
