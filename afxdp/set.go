package afxdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Set is the set of open ports of a router.
type Set struct {
	// Ports are the open ports by number, nil for a number without one. Add and Remove replace the slice, so
	// their caller must not call them concurrently with readers of it.
	Ports []*Port

	cfg       Config
	mu        sync.Mutex
	shared    *program            // attached to no interface; its maps are those that all ports share. nil after Close
	addresses map[netip.Addr]bool // local addresses
	folded    map[uint32]int      // of these, by fold
	filter    [1 << 10]uint64     // folds with addresses
	gateway   bool                // Guard was called
	frames    allotment
}

// Admit starts to redirect frames to the sockets, except host traffic. Call AddLocal with the host's
// addresses before.
func (s *Set) Admit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.Ports {
		if p == nil {
			continue
		}
		if err := p.admit(); err != nil {
			return fmt.Errorf("admit frames to port %s: %w", p.Name, err)
		}
	}
	return nil
}

// admit starts to redirect the frames of a port, unless it is paused. The caller holds the lock.
func (p *Port) admit() error {
	if p.program == nil {
		return errClosed
	}
	if p.paused {
		return nil
	}
	err := p.program.setMAC(p.MAC)
	p.admitted = err == nil
	return err
}

// Guard puts the ports in IPsec gateway mode. ESP and ESP in UDP to this host go to the sockets, IKE
// to Linux. Packets that Linux could forward past the policies are dropped, and counted by the Transit
// decisions. Call AddLocal with the host's addresses before.
func (s *Set) Guard() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gateway = true
	for _, p := range s.Ports {
		switch {
		case p == nil:
			continue
		case p.program == nil:
			return fmt.Errorf("guard port %s: %w", p.Name, errClosed)
		}
		if err := p.program.setGateway(); err != nil {
			return fmt.Errorf("guard port %s: %w", p.Name, err)
		}
	}
	return nil
}

// AddLocal passes packets to a to Linux on all ports: an address of the host, or the directed
// broadcast of a subnet.
func (s *Set) AddLocal(a netip.Addr) error {
	err := s.local(a, func(m *ebpf.Map, key []byte) error {
		if err := m.Put(key, uint8(1)); err != nil {
			return err
		}
		if a = a.Unmap(); s.addresses[a] {
			return nil
		}
		s.addresses[a] = true
		return s.fold(a, 1)
	})
	if errors.Is(err, unix.E2BIG) {
		err = errors.New("the XDP program's map of local addresses of this family is full")
	}
	if err != nil {
		return fmt.Errorf("add local address %v: %w", a, err)
	}
	return nil
}

// DeleteLocal undoes AddLocal. Deleting an unknown address is no error.
func (s *Set) DeleteLocal(a netip.Addr) error {
	err := s.local(a, func(m *ebpf.Map, key []byte) error {
		if err := m.Delete(key); err != nil {
			return err
		}
		delete(s.addresses, a.Unmap())
		return s.fold(a.Unmap(), -1)
	})
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("delete local address %v: %w", a, err)
	}
	return nil
}

// local calls f with the map of a's family, which all ports share, and the key.
func (s *Set) local(a netip.Addr, f func(m *ebpf.Map, key []byte) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a = a.Unmap()
	p := s.shared
	switch {
	case p == nil:
		return errClosed
	case a.Is4():
		return f(p.Local4, a.AsSlice())
	case a.Is6():
		return f(p.Local6, a.AsSlice())
	}
	return errors.New("not an address")
}

// fold adds an address to the filters in front of the maps of local addresses, or removes it: a bit per 16-bit fold
// of an address (see steer.bpf.c).
func (s *Set) fold(a netip.Addr, addresses int) error {
	f := foldOf(a)
	before := s.folded[f] > 0
	s.folded[f] += addresses
	after := s.folded[f] > 0
	if !after {
		delete(s.folded, f)
	}
	if before == after {
		return nil
	}
	s.filter[f>>6] ^= 1 << (f & 63)
	for _, p := range s.Ports {
		if p == nil || p.program == nil {
			continue
		}
		if err := p.setFilter(&s.filter); err != nil {
			return err
		}
	}
	return nil
}

func foldOf(a netip.Addr) (f uint32) {
	for b := a.AsSlice(); len(b) > 0; b = b[4:] {
		f ^= binary.NativeEndian.Uint32(b)
	}
	return (f ^ f>>16) & 0xffff
}

func (p *Port) setFilter(filter *[1 << 10]uint64) error {
	if err := p.program.LocalFolds.Set(filter); err != nil {
		return fmt.Errorf("set the XDP program's filter of local addresses: %w", err)
	}
	return nil
}

// Detach detaches the programs from the interfaces. No more frames arrive; workers can still drain
// the queues.
func (s *Set) Detach() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, p := range s.Ports {
		if p == nil || p.program == nil {
			continue
		}
		if err := p.program.detach(); err != nil {
			errs = append(errs, fmt.Errorf("detach the XDP program from %s: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}

// Close detaches the ports, unmaps the rings and closes the sockets. The workers must have stopped.
// Frames in the rings are not put back into the pools. It may be called twice.
func (s *Set) Close() error {
	errs := []error{s.Detach()}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.Ports {
		if p != nil {
			errs = append(errs, p.close())
		}
	}
	if s.shared != nil {
		errs = append(errs, s.shared.close())
		s.shared = nil
	}
	return errors.Join(errs...)
}

// close closes the sockets and the program of the port. The caller holds the lock.
func (p *Port) close() error {
	err := p.closeQueues()
	if p.program != nil {
		err = errors.Join(err, p.program.close())
		p.program = nil
	}
	return err
}

// closeQueues closes the sockets of the port.
func (p *Port) closeQueues() error {
	var errs []error
	for i, q := range p.queues {
		err := q.close()
		if s := q.next.Swap(nil); s != nil {
			err = errors.Join(err, s.close())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("close queue %d of %s: %w", i, p.Name, err))
		}
	}
	p.queues, p.byWorker = nil, make([][]*Queue, len(p.byWorker))
	return errors.Join(errs...)
}
