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

// Set is the open ports of a router.
type Set struct {
	Ports []*Port

	mu        sync.Mutex
	addresses map[netip.Addr]bool // that are local
}

// Admit takes the ports' frames from Linux: those that are not Linux's own go to
// the sockets from now on. Before, AddLocal should have said which are.
func (s *Set) Admit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.Ports {
		if p.program == nil {
			return fmt.Errorf("admit frames to port %s: %w", p.Name, errClosed)
		}
		if p.lent {
			continue
		}
		if err := p.program.setMAC(p.MAC); err != nil {
			return fmt.Errorf("admit frames to port %s: %w", p.Name, err)
		}
		p.admitted = true
	}
	return nil
}

// Guard makes the ports those of an IPsec gateway: ESP that is sent to this host, as it is
// or in UDP, goes to the sockets, while IKE stays Linux's; and packets that Linux might
// forward past the policies are dropped, and counted by the Transit decisions. AddLocal
// should have named the host's addresses before.
func (s *Set) Guard() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.Ports {
		if p.program == nil {
			return fmt.Errorf("guard port %s: %w", p.Name, errClosed)
		}
		if err := p.program.setGateway(); err != nil {
			return fmt.Errorf("guard port %s: %w", p.Name, err)
		}
	}
	return nil
}

// AddLocal makes packets to a go to Linux on all ports: the host's addresses,
// and the directed broadcasts of its subnets.
func (s *Set) AddLocal(a netip.Addr) error {
	err := s.local(a, func(m *ebpf.Map, key []byte) error {
		if err := m.Put(key, uint8(1)); err != nil {
			return err
		}
		s.addresses[a.Unmap()] = true
		return s.fold()
	})
	if errors.Is(err, unix.E2BIG) {
		err = errors.New("the XDP program has no room for more addresses of this family")
	}
	if err != nil {
		return fmt.Errorf("leave packets to %v to Linux: %w", a, err)
	}
	return nil
}

// DeleteLocal undoes AddLocal; an address that is not there is no error.
func (s *Set) DeleteLocal(a netip.Addr) error {
	err := s.local(a, func(m *ebpf.Map, key []byte) error {
		if err := m.Delete(key); err != nil {
			return err
		}
		delete(s.addresses, a.Unmap())
		return s.fold()
	})
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("take packets to %v from Linux: %w", a, err)
	}
	return nil
}

// local calls f with the map that a belongs in, shared by all ports, and its key.
func (s *Set) local(a netip.Addr, f func(m *ebpf.Map, key []byte) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a = a.Unmap()
	p := s.Ports[0].program
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

// fold tells the programs which 16-bit folds of addresses are worth a look into
// the maps (see steer.bpf.c).
func (s *Set) fold() error {
	var folds [1 << 10]uint64
	for a := range s.addresses {
		var f uint32
		for b := a.AsSlice(); len(b) > 0; b = b[4:] {
			f ^= binary.NativeEndian.Uint32(b)
		}
		f = (f ^ f>>16) & 0xffff
		folds[f>>6] |= 1 << (f & 63)
	}
	for _, p := range s.Ports {
		if p.program == nil {
			continue
		}
		if err := p.program.LocalFolds.Set(folds); err != nil {
			return fmt.Errorf("set the XDP program's folds of local addresses: %w", err)
		}
	}
	return nil
}

// Detach takes the programs off the interfaces. No more frames arrive; the
// queues stay usable, so that workers can drain them.
func (s *Set) Detach() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, p := range s.Ports {
		if p.program == nil {
			continue
		}
		if err := p.program.detach(); err != nil {
			errs = append(errs, fmt.Errorf("detach the XDP program from %s: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}

// Close detaches the ports, unmaps the rings and closes the sockets. The workers
// must have stopped. Frames that are in the rings do not go back to their pools.
// To close twice is no error.
func (s *Set) Close() error {
	errs := []error{s.Detach()}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.Ports {
		errs = append(errs, p.closeQueues())
		if p.program != nil {
			errs = append(errs, p.program.close())
			p.program = nil
		}
	}
	return errors.Join(errs...)
}

// closeQueues closes the port's sockets.
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
