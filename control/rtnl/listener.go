package rtnl

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrOverrun reports that the receive buffer overflowed and events are lost. The caller must
// compare its state with a new dump.
var ErrOverrun = errors.New("netlink receive buffer overran; events are lost")

// maxEvent exceeds the size of all events, in bytes. A multipath route has up to 64 KiB of
// attributes.
const maxEvent = 68 << 10

// MinBuffer is the minimum length of a buffer for Receive, in bytes.
const MinBuffer = 2 * maxEvent

// Listener is a netlink socket that receives the kernel's multicast notifications (events) of several
// groups in their order.
type Listener struct {
	file *os.File
	raw  syscall.RawConn
}

// ListenFamily opens a listener for groups, such as unix.RTNLGRP_..., of a netlink family,
// unix.NETLINK_..., in the calling thread's network namespace. buffer is the receive buffer size in bytes.
func ListenFamily(family, buffer int, groups ...int) (*Listener, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, family)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	l := &Listener{file: os.NewFile(uintptr(fd), "netlink")} // owns fd; waits in the runtime poller
	if err := l.open(fd, buffer, groups); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Listener) open(fd, buffer int, groups []int) (err error) {
	// SO_RCVBUFFORCE requires CAP_NET_ADMIN. A smaller buffer causes more overruns.
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer) != nil {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer); err != nil {
			return fmt.Errorf("set netlink receive buffer to %d bytes: %w", buffer, err)
		}
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("bind netlink socket: %w", err)
	}
	for _, g := range groups {
		// The group mask of Bind has 32 bits, too few for RTNLGRP_NEXTHOP.
		if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, g); err != nil {
			return fmt.Errorf("join netlink group %d: %w", g, err)
		}
	}
	if l.raw, err = l.file.SyscallConn(); err != nil {
		return fmt.Errorf("poll netlink socket: %w", err)
	}
	return nil
}

// Close closes the listener. A blocked Receive returns os.ErrClosed.
func (l *Listener) Close() error { return l.file.Close() }

// Receive waits for events and fills buf with the queued messages, for Next. ErrOverrun is
// temporary; os.ErrClosed is final.
func (l *Listener) Receive(buf []byte) (n int, err error) {
	waitErr := l.raw.Read(func(fd uintptr) bool {
		n, err = receiveAll(int(fd), buf)
		return n > 0 || err != nil
	})
	if waitErr != nil { // only Close causes it: there are no deadlines
		return 0, fmt.Errorf("%w: %v", os.ErrClosed, waitErr)
	}
	return n, err
}

// receiveAll reads queued messages until buf is full or the socket is empty.
func receiveAll(fd int, buf []byte) (n int, err error) {
	for len(buf)-n >= maxEvent {
		size, from, err := unix.Recvfrom(fd, buf[n:], unix.MSG_TRUNC)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return n, nil
		case err == unix.ENOBUFS:
			discard(fd)
			return 0, ErrOverrun
		case err != nil:
			return n, fmt.Errorf("read netlink events: %w", err)
		case size > len(buf)-n:
			discard(fd)
			return 0, ErrOverrun
		case fromKernel(from):
			n = align(n + size)
		}
	}
	return n, nil
}

// discard empties the socket. After an overrun the kernel drops further events silently until the
// socket is empty.
func discard(fd int) {
	var b [1]byte
	for {
		_, _, err := unix.Recvfrom(fd, b[:], unix.MSG_TRUNC)
		if err != nil && err != unix.EINTR && err != unix.ENOBUFS {
			return
		}
	}
}

func fromKernel(from unix.Sockaddr) bool {
	a, ok := from.(*unix.SockaddrNetlink)
	return ok && a.Pid == 0
}

// Mark sends a no-op request. Its acknowledgement, an NLMSG_ERROR with sequence number seq and no
// error, arrives after all events that precede it: the kernel queues both on this socket.
func (l *Listener) Mark(seq uint32) error {
	b := newRequest(unix.NLMSG_NOOP, unix.NLM_F_ACK, seq).bytes()
	var err error
	if werr := l.raw.Write(func(fd uintptr) bool {
		err = unix.Sendto(int(fd), b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		return err != unix.EAGAIN
	}); werr != nil {
		err = werr
	}
	return wrap("ask netlink for a mark", err)
}
