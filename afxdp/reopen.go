package afxdp

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/umem"
)

// Reopen opens the current interface with the port's name, after the old one was deleted and the
// kernel has unbound its sockets. The workers keep running; each switches to the new sockets at its
// next Refill. The interface must have the same number of queues and support the active mode. On error
// the port is unchanged, and neither receives nor transmits.
func (p *Port) Reopen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.program == nil {
		return fmt.Errorf("reopen port %s: %w", p.Name, errClosed)
	}
	if p.inherited || p.withheld {
		return fmt.Errorf("reopen port %s: a process hands it over", p.Name)
	}
	if err := p.reopen(); err != nil {
		return fmt.Errorf("reopen port %s: %w", p.Name, err)
	}
	return nil
}

// reopenTimeout limits the wait for resources that the kernel is still freeing.
const reopenTimeout = 500 * time.Millisecond

func (p *Port) reopen() (err error) {
	is, _, err := newPort(PortConfig{Interface: p.Name, Member: p.member}, len(p.byWorker), p.queues[0].options.memory.Large() > 0)
	if err != nil {
		return err
	}
	for _, q := range p.queues {
		if q.next.Load() != nil && is.Ifindex == p.Ifindex {
			return errors.New("the workers have not yet switched to the sockets of the previous reopen")
		}
	}
	deadline := time.Now().Add(reopenTimeout)
	if err := p.program.detach(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("detach from the deleted interface: %w", err)
	}
	for i := range p.queues { // frames to an unbound socket are not counted, frames without a socket are
		if err := p.program.Sockets.Delete(uint32(i)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove the socket of queue %d from the XDP program: %w", i, err)
		}
	}
	attach := p.Mode
	if attach == ZeroCopy {
		attach = Native
	}
	if err := p.program.attach(is.Ifindex, attach, deadline); err != nil {
		return attachError(err, p.Name, is.Ifindex)
	}
	p.unattached = false
	sockets := make([]*socket, 0, len(p.queues))
	defer func() {
		if err != nil {
			err = errors.Join(err, p.program.detach())
			for _, s := range sockets {
				err = errors.Join(err, s.close())
			}
		}
	}()
	queues, _, err := netdev.Queues(p.Name) // with the program: see addPort
	if err != nil {
		return err
	}
	if queues != len(p.queues) {
		return fmt.Errorf("the interface has %d queues and had %d, with an XDP program: restart the router, or `ethtool -L %s combined %d` and set it down and up", queues, len(p.queues), p.Name, len(p.queues))
	}
	for i, q := range p.queues {
		s := new(socket)
		if err := q.options.open(s, is.Ifindex, i); err != nil {
			return withHint(fmt.Errorf("queue %d: %w", i, err), bindHints)
		}
		sockets = append(sockets, s)
	}
	for i, s := range sockets {
		if err := p.program.Sockets.Put(uint32(i), uint32(s.fd)); err != nil {
			return fmt.Errorf("add the socket of queue %d to the XDP program: %w", i, err)
		}
	}
	for i, q := range p.queues {
		if old := q.next.Swap(sockets[i]); old != nil { // of an interface deleted before the worker switched: its rings are empty
			_ = old.close()
		}
	}
	p.Ifindex = is.Ifindex
	return nil
}

// socketOptions are the parameters to open the socket of a queue again.
type socketOptions struct {
	memory   *umem.Memory
	ring     uint32
	zeroCopy bool
	busyPoll time.Duration
}

// open opens a socket with a UMEM registration of its own. At first, the sockets of a worker share one;
// the registration of a socket whose interface was deleted cannot be shared.
func (r *socketOptions) open(s *socket, ifindex, queue int) error {
	if err := s.open(r.memory, true, r.ring); err != nil {
		return err
	}
	err := s.bind(ifindex, queue, r.zeroCopy, r.memory.Large() > 0, s, time.Now().Add(reopenTimeout))
	if err == nil && r.busyPoll > 0 {
		err = s.busyPoll(r.busyPoll)
	}
	if err != nil {
		return errors.Join(err, s.close())
	}
	return nil
}

// switchSocket switches to the socket of Reopen, unless the Set is locked: a worker does not wait.
//
// It puts the frames in the rings of the old socket back into the pool; received ones count as lost.
// It does not get back the frame that the kernel kept for the next packet after a failed delivery, and
// frames in the driver's own queue with zero-copy.
func (q *Queue) switchSocket() {
	if !q.mu.TryLock() { // Stats reads the rings, or another port is being reopened
		return
	}
	defer q.mu.Unlock()
	s := q.next.Swap(nil)
	if s == nil {
		return
	}
	q.reclaimCompleted()
	for q.rx.peek(1) > 0 {
		d := q.rx.at(0)
		q.pool.Put(uint32(d.Addr))
		q.rx.release(1)
		if d.Options&unix.XDP_PKT_CONTD == 0 { // the last descriptor of a frame
			q.past.Rx_dropped++
		}
	}
	q.multi.reset(q.pool)
	q.fill.unconsumed(func(addr uint64) { q.pool.Put(uint32(addr)) })
	q.tx.unconsumed(func(d unix.XDPDesc) { q.free(uint32(d.Addr)) })
	q.receiving, q.transmitting = 0, 0
	if counted, err := option[unix.XDPStatistics](q.fd, unix.XDP_STATISTICS); err == nil {
		q.past = q.past.plus(counts(counted))
	}
	q.replace(s)
}

// replace closes the socket and replaces it by another. The file descriptor keeps its number, because
// the worker polls it.
func (s *socket) replace(by *socket) {
	if err := unix.Dup3(by.fd, s.fd, unix.O_CLOEXEC); err == nil { // fails only for invalid descriptors
		unix.Close(by.fd)
	}
	_ = s.unmap()
	by.fd = s.fd
	*s = *by
}
