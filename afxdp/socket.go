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
	fill       prodRing[uint64]       // frames to receive into
	rx         consRing[unix.XDPDesc] // received frames
	tx         prodRing[unix.XDPDesc] // frames to transmit
	completion consRing[uint64]       // transmitted frames
	budget     uint32                 // frames per send call in the copy modes
	mappings   [][]byte
}

// open creates the socket and its rings. With register set it registers the UMEM; the other sockets
// of the worker share it (XDP_SHARED_UMEM).
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
			return fmt.Errorf("create the %s ring of %d descriptors: %w", ring.name, ring.size, err)
		}
	}
	if err := s.mapRings(ringSize); err != nil {
		return fmt.Errorf("map the rings of %d descriptors: %w", ringSize, err)
	}

	// Two optional settings for the copy modes. One call can send a whole ring (Linux 6.17). And a
	// whole ring can be in the device: each frame is a socket buffer that counts against the send
	// buffer until it is sent, and the default limit is less than 100 frames.
	s.setBudget(ringSize)
	_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, int(ringSize)*umem.FrameSize)
	return nil
}

// defaultBudget is the kernel's default number of frames per send call.
const defaultBudget = 32

// setBudget sets the number of frames per send call in the copy modes.
func (s *socket) setBudget(frames uint32) {
	s.budget = defaultBudget
	if setOption(s.fd, unix.XDP_MAX_TX_SKB_BUDGET, frames) == nil {
		s.budget = frames
	}
}

// mapRings maps the four rings. The kernel allows it only before bind.
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
	s.fill, s.completion, s.rx, s.tx = newProdRing(fill), newConsRing(completion), newConsRing(rx), newProdRing(tx)
	return nil
}

// bind binds the socket to a queue of an interface. A socket other than first shares the UMEM and the
// mode of first. With multiBuffer set, frames can have several descriptors (XDP_USE_SG).
func (s *socket) bind(ifindex, queue int, zeroCopy, multiBuffer bool, first *socket, deadline time.Time) error {
	addr := &unix.SockaddrXDP{Ifindex: uint32(ifindex), QueueID: uint32(queue)}
	switch {
	case s != first:
		addr.Flags, addr.SharedUmemFD = unix.XDP_SHARED_UMEM, uint32(first.fd)
	case zeroCopy:
		addr.Flags = unix.XDP_ZEROCOPY | unix.XDP_USE_NEED_WAKEUP
	default:
		addr.Flags = unix.XDP_COPY | unix.XDP_USE_NEED_WAKEUP
	}
	if multiBuffer && s == first {
		addr.Flags |= unix.XDP_USE_SG
	}
	return retryBusy(deadline, func() error { return unix.Bind(s.fd, addr) })
}

// busyPollBudget is the maximum number of frames per busy poll.
const busyPollBudget = 64

// busyPoll lets system calls on the socket poll the driver for up to d, and defers its interrupts.
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

// close unmaps the rings, each of which would keep the queue busy, and closes the socket. The kernel
// drops the frames in the rings.
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
