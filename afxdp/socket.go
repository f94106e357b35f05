package afxdp

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/umem"
)

// socket is an AF_XDP socket with its four rings.
type socket struct {
	fd         int
	fill       producer[uint64]       // frames for the kernel to receive into
	rx         consumer[unix.XDPDesc] // frames received
	tx         producer[unix.XDPDesc] // frames to transmit
	completion consumer[uint64]       // frames transmitted
	budget     uint32                 // frames that one call sends in the copy modes
	mappings   [][]byte
}

// open makes the socket and its rings. With register set it is the socket by
// which the kernel learns of the memory; the others of the worker are bound as
// sharing with it.
func (s *socket) open(m *umem.Memory, register bool, ringSize uint32) (err error) {
	s.fd, err = unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open an AF_XDP socket: %w", err)
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()

	if register {
		if err := registerMemory(s.fd, m.Bytes(), umem.FrameSize, umem.Headroom); err != nil {
			return fmt.Errorf("register %d MiB of frame memory: %w", len(m.Bytes())>>20, err)
		}
	}
	for _, ring := range []struct {
		name   string
		option int
		size   uint32
	}{
		{"fill", unix.XDP_UMEM_FILL_RING, 2 * ringSize},
		{"completion", unix.XDP_UMEM_COMPLETION_RING, 2 * ringSize},
		{"RX", unix.XDP_RX_RING, ringSize},
		{"TX", unix.XDP_TX_RING, ringSize},
	} {
		if err := setOption(s.fd, ring.option, ring.size); err != nil {
			return fmt.Errorf("make a %s ring of %d entries: %w", ring.name, ring.size, err)
		}
	}
	if err := s.mapRings(ringSize); err != nil {
		return fmt.Errorf("map the rings of %d entries: %w", ringSize, err)
	}

	// Two favours to the copy modes, which do without when refused. One call may
	// send a whole ring (Linux 6.17). And a whole ring may be on its way through
	// the device: each frame is a socket buffer that counts against the send buffer
	// until it is sent, and the default holds less than a hundred.
	s.setBudget(ringSize)
	_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, int(ringSize)*umem.FrameSize)
	return nil
}

// defaultBudget is how many frames a call sends where nobody said otherwise.
const defaultBudget = 32

// setBudget says how many frames one call may send in the copy modes.
func (s *socket) setBudget(frames uint32) {
	s.budget = defaultBudget
	if setOption(s.fd, unix.XDP_MAX_TX_SKB_BUDGET, frames) == nil {
		s.budget = frames
	}
}

// mapRings maps all four, which the kernel allows only before the socket is bound.
func (s *socket) mapRings(ringSize uint32) error {
	at, err := option[unix.XDPMmapOffsets](s.fd, unix.XDP_MMAP_OFFSETS)
	if err != nil {
		return err
	}
	fill, m1, err1 := mapRing[uint64](s.fd, unix.XDP_UMEM_PGOFF_FILL_RING, at.Fr, 2*ringSize)
	completion, m2, err2 := mapRing[uint64](s.fd, unix.XDP_UMEM_PGOFF_COMPLETION_RING, at.Cr, 2*ringSize)
	rx, m3, err3 := mapRing[unix.XDPDesc](s.fd, unix.XDP_PGOFF_RX_RING, at.Rx, ringSize)
	tx, m4, err4 := mapRing[unix.XDPDesc](s.fd, unix.XDP_PGOFF_TX_RING, at.Tx, ringSize)
	s.mappings = [][]byte{m1, m2, m3, m4}
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	s.fill, s.completion, s.rx, s.tx = newProducer(fill), newConsumer(completion), newConsumer(rx), newProducer(tx)
	return nil
}

// bind ties the socket to a queue of an interface: with the memory of first
// where the socket registered none of its own, and then in the mode of first. With
// pieces set, frames may take several descriptors.
func (s *socket) bind(ifindex, queue int, zeroCopy, pieces bool, first *socket, deadline time.Time) error {
	addr := &unix.SockaddrXDP{Ifindex: uint32(ifindex), QueueID: uint32(queue)}
	switch {
	case s != first:
		addr.Flags, addr.SharedUmemFD = unix.XDP_SHARED_UMEM, uint32(first.fd)
	case zeroCopy:
		addr.Flags = unix.XDP_ZEROCOPY | unix.XDP_USE_NEED_WAKEUP
	default:
		addr.Flags = unix.XDP_COPY | unix.XDP_USE_NEED_WAKEUP
	}
	if pieces && s == first {
		addr.Flags |= unix.XDP_USE_SG
	}
	return retryBusy(deadline, func() error { return unix.Bind(s.fd, addr) })
}

// busyPollBudget is how many frames one busy poll takes from the driver at most.
const busyPollBudget = 64

// busyPoll lets system calls on the socket do the driver's work for up to d,
// and defers its interrupts meanwhile.
func (s *socket) busyPoll(d time.Duration) error {
	for _, o := range []struct{ option, value int }{
		{unix.SO_PREFER_BUSY_POLL, 1},
		{unix.SO_BUSY_POLL, int(d.Microseconds())},
		{unix.SO_BUSY_POLL_BUDGET, busyPollBudget},
	} {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, o.option, o.value); err != nil {
			return fmt.Errorf("turn on busy polling for %v: %w", d, err)
		}
	}
	return nil
}

// close unmaps the rings, each of which would keep the queue busy, and closes
// the socket. The kernel drops what is still in the rings.
func (s *socket) close() error {
	return errors.Join(s.unmap(), unix.Close(s.fd))
}

func (s *socket) unmap() error {
	var errs []error
	for _, m := range s.mappings {
		if m != nil {
			errs = append(errs, unix.Munmap(m))
		}
	}
	s.mappings = nil
	return errors.Join(errs...)
}
