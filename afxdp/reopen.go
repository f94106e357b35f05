package afxdp

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/umem"
)

// Reopen makes the interface that has the port's name now the port, after the one that
// it was has been deleted: the kernel has unbound all its sockets then, for good. The
// workers go on meanwhile, and take up the new sockets each on its own, at its next
// Refill. The interface must be as the old one: the same number of queues, and the mode
// in force. On error the port is as it was, and nothing is received on it or sent.
func (p *Port) Reopen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.program == nil {
		return fmt.Errorf("open port %s again: %w", p.Name, errClosed)
	}
	if err := p.reopen(); err != nil {
		return fmt.Errorf("open port %s again: %w", p.Name, err)
	}
	return nil
}

// reopenTimeout is how long what the kernel is still tearing down is waited for.
const reopenTimeout = 500 * time.Millisecond

func (p *Port) reopen() (err error) {
	is, queues, err := newPort(p.Name, len(p.byWorker), p.queues[0].reopening.memory.Large() > 0)
	if err != nil {
		return err
	}
	if queues != len(p.queues) {
		return fmt.Errorf("the interface has %d queues and had %d: restart the router, or `ethtool -L %s combined %d` and set it down and up", queues, len(p.queues), p.Name, len(p.queues))
	}
	for _, q := range p.queues {
		if q.next.Load() != nil && is.Ifindex == p.Ifindex {
			return errors.New("its workers have not yet taken up the sockets of the last time")
		}
	}
	deadline := time.Now().Add(reopenTimeout)
	if err := p.program.detach(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("let go of the interface that is gone: %w", err)
	}
	for i := range p.queues { // the old sockets would lose frames unseen; with none they are counted
		if err := p.program.Sockets.Delete(uint32(i)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("take the socket of queue %d from the XDP program: %w", i, err)
		}
	}
	attach := p.Mode
	if attach == ZeroCopy {
		attach = Native
	}
	if err := p.program.attach(is.Ifindex, attach, deadline); err != nil {
		return attachFault(err, p.Name, is.Ifindex)
	}
	sockets := make([]*socket, 0, len(p.queues))
	defer func() {
		if err != nil {
			err = errors.Join(err, p.program.detach())
			for _, s := range sockets {
				err = errors.Join(err, s.close())
			}
		}
	}()
	for i, q := range p.queues {
		s := new(socket)
		if err := q.reopening.openAlone(s, is.Ifindex, i); err != nil {
			return mended(fmt.Errorf("queue %d: %w", i, err), bindMends)
		}
		sockets = append(sockets, s)
	}
	for i, s := range sockets {
		if err := p.program.Sockets.Put(uint32(i), uint32(s.fd)); err != nil {
			return fmt.Errorf("give the socket of queue %d to the XDP program: %w", i, err)
		}
	}
	for i, q := range p.queues {
		if old := q.next.Swap(sockets[i]); old != nil { // of an interface that went before the worker looked; no frame is at its rings
			_ = old.close()
		}
	}
	p.Ifindex = is.Ifindex
	return nil
}

// reopening is what a queue keeps to open its socket again.
type reopening struct {
	memory   *umem.Memory
	ring     uint32
	zeroCopy bool
	busyPoll time.Duration
}

// openAlone opens a socket that registers the memory by itself. Sockets of one memory
// share a registration at first; one that was left by the interface it was bound to can
// be shared no more. The frames are the same, whichever way the kernel knows of them.
func (r *reopening) openAlone(s *socket, ifindex, queue int) error {
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

// renew changes to the socket of an interface that has taken the place of the queue's, if
// nobody holds the Set: a worker waits for none, and has all ports to serve.
// The frames in the rings of the old one come back to the pool: nobody receives into
// them or sends them. One that the kernel could not deliver, and kept for the next packet,
// does not, nor do those that a zero-copy driver had set aside. What had been received
// counts as lost.
func (q *Queue) renew() {
	if !q.mu.TryLock() { // Stats reads the rings, or another port is being opened again, which takes long
		return
	}
	defer q.mu.Unlock()
	s := q.next.Swap(nil)
	if s == nil {
		return
	}
	q.complete()
	for q.rx.available(1) > 0 {
		d := q.rx.at(0)
		q.pool.Put(uint32(d.Addr))
		q.rx.release(1)
		if d.Options&unix.XDP_PKT_CONTD == 0 { // the last piece
			q.past.Rx_dropped++
		}
	}
	q.pieces.abandon(q.pool)
	q.fill.abandoned(func(addr uint64) { q.pool.Put(uint32(addr)) })
	q.tx.abandoned(func(d unix.XDPDesc) { q.sent(uint32(d.Addr)) })
	q.receiving, q.transmitting = 0, 0
	if counted, err := option[unix.XDPStatistics](q.fd, unix.XDP_STATISTICS); err == nil {
		q.past = q.past.plus(counts(counted))
	}
	q.replace(s)
}

// replace closes the socket and becomes another, whose descriptor takes the number of
// the old one, by which others poll it.
func (s *socket) replace(by *socket) {
	if err := unix.Dup3(by.fd, s.fd, unix.O_CLOEXEC); err == nil { // fails of numbers that are no descriptors only
		unix.Close(by.fd)
	}
	_ = s.unmap()
	by.fd = s.fd
	*s = *by
}

// abandoned calls f with each entry that the kernel has not taken.
func (p *producer[E]) abandoned(f func(E)) {
	for i := p.next - p.level(); i != p.next; i++ {
		f(*p.slot(i))
	}
}
