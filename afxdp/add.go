package afxdp

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Ports are added and removed while the workers use the others:
//
//	Add       attach the program, which passes all frames to Linux, and bind a socket to each queue
//	          (the workers take the queues, and fill the rings)
//	Admit     redirect frames to the sockets
//
//	Detach    detach the program: no more frames arrive
//	          (the workers empty the queues, and release them)
//	Remove    close the sockets, and return the last counters
//
// One goroutine calls them. The lock is not held while the kernel attaches programs and binds sockets, which
// can take seconds.

// Add opens a port with a number that has none. After an error, nothing of it is open.
func (s *Set) Add(number int, cfg PortConfig) (_ *Port, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open port %s: %w", cfg.Interface, err)
		}
	}()
	if err := s.mayAdd(number, cfg); err != nil {
		return nil, err
	}
	p, n, err := s.attach(number, cfg, time.Now().Add(reopenTimeout))
	var shares []int
	defer func() {
		if err != nil && p != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.frames.put(shares, s.cfg.RingSize)
			err = errors.Join(err, p.close())
		}
	}()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	shares, err = s.frames.take(n, s.cfg.RingSize)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := s.openAdded(p, number, cfg.Mode, shares); err != nil {
		return nil, withHint(err, bindHints)
	}
	if err := p.listSockets(); err != nil {
		return nil, err
	}
	return p, s.publish(number, p)
}

// mayAdd returns an error if a port cannot be added.
func (s *Set) mayAdd(number int, cfg PortConfig) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared == nil {
		return errClosed
	}
	for i, p := range s.Ports {
		if p != nil && (i == number || p.Name == cfg.Interface) {
			return fmt.Errorf("port %d is %s", i, p.Name)
		}
	}
	return nil
}

// openAdded opens the sockets of a port, with zero-copy if the mode and the driver permit. They have UMEM registrations
// of their own, so that the modes of other ports do not matter.
func (s *Set) openAdded(p *Port, number int, asked Mode, shares []int) error {
	refused := CheckZeroCopy(p.Name, p.mtu, p.added)
	if p.Mode == Generic {
		refused = errors.New("generic XDP")
	}
	if asked == ZeroCopy && refused != nil {
		return fmt.Errorf("zero-copy: %w (use mode auto or native)", refused)
	}
	if refused == nil && (asked == Auto || asked == ZeroCopy) {
		err := s.openAddedIn(p, number, true, shares)
		if err == nil {
			p.Mode, p.ModeReason = ZeroCopy, ""
		}
		if err == nil || asked == ZeroCopy || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENODEV) {
			return err
		}
		refused = err
	}
	if asked == Auto && p.Mode == Native {
		p.ModeReason = refused.Error()
	}
	return s.openAddedIn(p, number, false, shares)
}

// openAddedIn opens all sockets of a port with or without zero-copy, or none.
func (s *Set) openAddedIn(p *Port, number int, zeroCopy bool, shares []int) error {
	p.byWorker = make([][]*Queue, len(s.cfg.Workers))
	for n, share := range shares {
		q := s.newQueue(number, n, zeroCopy)
		q.share = share
		if err := q.options.open(&q.socket, p.Ifindex, n); err != nil {
			return errors.Join(fmt.Errorf("open queue %d: %w", n, err), p.closeQueues())
		}
		w := n % len(p.byWorker)
		p.queues, p.byWorker[w] = append(p.queues, q), append(p.byWorker[w], q)
	}
	return nil
}

// publish adds an open port to the others.
func (s *Set) publish(number int, p *Port) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared == nil {
		return errClosed
	}
	if err := p.setFilter(&s.filter); err != nil {
		return err
	}
	if s.gateway {
		if err := p.program.setGateway(); err != nil {
			return err
		}
	}
	ports := slices.Clone(s.Ports)
	for len(ports) <= number {
		ports = append(ports, nil)
	}
	ports[number] = p
	s.Ports = ports
	return nil
}

// Admit starts to redirect the frames of an added port to its sockets, except host traffic.
func (p *Port) Admit() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.admit(); err != nil {
		return fmt.Errorf("admit frames to port %s: %w", p.Name, err)
	}
	return nil
}

// Detach detaches the program of a port that is to be removed. Its interface may be deleted.
func (p *Port) Detach() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.program == nil {
		return nil
	}
	if err := p.program.detach(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("detach the XDP program from %s: %w", p.Name, err)
	}
	p.unattached = false
	return nil
}

// Remove closes a port after Port.Detach. The workers have released its queues, or have never used them. It returns the
// last counters of the port, and the number of frames that stay with the kernel.
func (s *Set) Remove(number int) (last PortStats, lost int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.Ports[number]
	last, err = p.stats()
	shares := make([]int, len(p.queues))
	for i, q := range p.queues {
		if lost += q.lost; q.lost <= 1 { // see Queue.switchSocket
			shares[i] = q.share
		}
	}
	s.frames.put(shares, s.cfg.RingSize)
	err = errors.Join(err, p.close())
	s.Ports = slices.Clone(s.Ports)
	s.Ports[number] = nil
	return last, lost, err
}
