package afxdp

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// A process hands its ports over to another one. The interface always has an XDP program, which drops transit
// frames while no socket is bound:
//
//	old process                     new process
//	                                Open: load programs, register memory, map rings
//	Withhold: drop frames
//	(workers empty the queues)
//	CloseSockets
//	Handover: BPF links      ──►    Bind: bind the sockets
//	                                (workers start)
//	                                Attach: replace the programs of the links
//	Leave                    ──►    Own
//
// A queue has sockets of one process at a time, and rings of a bound socket cannot be mapped. So frames are lost
// from Withhold to Attach, which the old program counts as NoSocket.

// Inherited describes a port that another process has.
type Inherited struct {
	Mode       Mode
	ModeReason string
	Added      int // queues that the driver has added for the program
}

// Handover is a port that this process hands over.
type Handover struct {
	Interface string
	Ifindex   int
	Link      int // file descriptor of the BPF link that holds the program, to be closed by the caller
}

// Inherited returns what another process needs to open the port.
func (p *Port) Inherited() Inherited { return Inherited{p.Mode, p.ModeReason, p.added} }

// inherits reports whether another process hands the ports over.
func (c *Config) inherits() bool { return len(c.Ports) > 0 && c.Ports[0].Inherited != nil }

// inheritsZeroCopy reports whether all ports of the other process are in zero-copy mode.
func (c *Config) inheritsZeroCopy() bool {
	for _, p := range c.Ports {
		if p.Inherited.Mode != ZeroCopy {
			return false
		}
	}
	return true
}

// Withhold drops the frames of all ports that are not host traffic, and counts them as NoSocket. Frames in the
// rings stay. Workers can still transmit.
func (s *Set) Withhold() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.Ports {
		if p == nil || p.program == nil {
			continue
		}
		p.withheld = true
		for i := range p.queues {
			if err := p.program.Sockets.Delete(uint32(i)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return fmt.Errorf("remove the socket of queue %d of %s from the XDP program: %w", i, p.Name, err)
			}
		}
	}
	return nil
}

// CloseSockets closes the sockets of all ports and keeps their counters. No worker runs. The kernel frees the queues
// a little later.
func (s *Set) CloseSockets() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*Queue
	var errs []error
	for _, p := range s.Ports {
		if p == nil || p.program == nil {
			continue
		}
		st, err := p.stats()
		errs = append(errs, err)
		st.Refused, st.FillLevel, st.RxLevel, st.TxLevel, st.CompletionLevel = 0, 0, 0, 0, 0
		for _, q := range p.queues {
			p.received += q.received.Load()
			st.RxDropped += uint64(q.rx.level())
		}
		p.closed, all = st, append(all, p.queues...)
		p.queues, p.byWorker = nil, make([][]*Queue, len(p.byWorker))
	}
	// Each close waits for an RCU grace period, and they wait for the same one.
	var closing sync.WaitGroup
	closed := make([]error, len(all))
	for i, q := range all {
		closing.Go(func() {
			closed[i] = q.close()
			if s := q.next.Swap(nil); s != nil {
				closed[i] = errors.Join(closed[i], s.close())
			}
		})
	}
	closing.Wait()
	return errors.Join(append(errs, closed...)...)
}

// Handover returns the ports with duplicates of their links.
func (s *Set) Handover() (all []Handover, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.Ports {
		if p == nil || p.program == nil {
			continue
		}
		l, ok := p.program.link.(interface{ FD() int })
		if !ok {
			return all, fmt.Errorf("hand over port %s: its XDP program is not attached", p.Name)
		}
		fd, err := unix.FcntlInt(uintptr(l.FD()), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return all, fmt.Errorf("hand over port %s: duplicate its BPF link: %w", p.Name, err)
		}
		all = append(all, Handover{p.Name, p.Ifindex, fd})
	}
	return all, nil
}

// Leave closes the links and leaves the programs attached, for the process that has them now.
func (s *Set) Leave() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, p := range s.Ports {
		if p == nil || p.program == nil || p.program.link == nil {
			continue
		}
		errs = append(errs, p.program.link.Close())
		p.program.link = nil
	}
	return errors.Join(errs...)
}

// Times between attempts to bind a socket to a queue that the kernel has not freed yet, and until Bind gives up.
const (
	bindPause   = 300 * time.Microsecond
	bindTimeout = 2 * time.Second
)

// Bind binds the sockets of inherited ports to their queues, once the other process has closed its own.
func (s *Set) Bind() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.Ports {
		for n, q := range p.queues {
			first := q.first
			if first == nil {
				first = &q.socket
			}
			var err error
			for end := time.Now().Add(bindTimeout); ; time.Sleep(bindPause) {
				if err = q.bind(p.Ifindex, n, q.zeroCopy, s.cfg.large(), first, time.Time{}); !errors.Is(err, unix.EBUSY) || time.Now().After(end) {
					break
				}
			}
			if err == nil && s.cfg.BusyPoll > 0 {
				err = q.busyPoll(s.cfg.BusyPoll)
			}
			if err != nil {
				return withHint(fmt.Errorf("bind to queue %d of port %s: %w", n, p.Name, err), bindHints)
			}
		}
	}
	return nil
}

// Attach replaces the programs of the links, and frames arrive. The caller has called Bind and Admit. It closes
// the links that are not used.
func (s *Set) Attach(links []Handover) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	byName := map[string]Handover{}
	for _, l := range links {
		byName[l.Interface] = l
		defer unix.Close(l.Link)
	}
	for _, p := range s.Ports {
		l, ok := byName[p.Name]
		if !ok || l.Ifindex != p.Ifindex {
			return fmt.Errorf("attach to port %s: the other process has no program on the interface with index %d", p.Name, p.Ifindex)
		}
		if err := p.replace(l.Link); err != nil {
			return fmt.Errorf("attach to port %s: replace the XDP program: %w", p.Name, err)
		}
	}
	return nil
}

// replace replaces the program of a link, which holds this port's from then on.
func (p *Port) replace(fd int) error {
	fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	l, err := link.NewFromFD(fd)
	if err != nil {
		_ = unix.Close(fd)
		return err
	}
	err = l.Update(p.program.current())
	if err != nil && p.program.stripped != nil {
		p.program.ignoreTags(fmt.Sprintf("attach the XDP program that reads them: %v", err))
		err = l.Update(p.program.Steer)
	}
	if err != nil {
		return errors.Join(err, l.Close())
	}
	p.program.link, p.program.borrowed, p.inherited = l, true, false
	return nil
}

// Own makes this process the only owner of the programs of inherited ports: it detaches them when it closes
// the ports. Before, it leaves them to the other process.
func (s *Set) Own() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.Ports {
		if p != nil && p.program != nil {
			p.program.borrowed = false
		}
	}
}
