package rtnl

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrOverrun: more happened than the socket's buffer holds, and events are lost.
// What one knows must be compared with a dump.
var ErrOverrun = errors.New("netlink receive buffer overran; events are lost")

// maxEvent is more than any event takes: 64 KB of attributes of a multipath route.
const maxEvent = 68 << 10

// MinBuffer is the least length of a buffer for Receive.
const MinBuffer = 2 * maxEvent

// Listener hears of changes, of all sorts in the order in which they happened.
type Listener struct {
	file *os.File
	raw  syscall.RawConn
}

// Listen opens a listener in the calling thread's network namespace, with a
// receive buffer of so many bytes, for groups unix.RTNLGRP_....
func Listen(buffer int, groups ...int) (*Listener, error) {
	return ListenFamily(unix.NETLINK_ROUTE, buffer, groups...)
}

// ListenFamily is Listen for another netlink family, unix.NETLINK_..., and its groups.
func ListenFamily(family, buffer int, groups ...int) (*Listener, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, family)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	l := &Listener{file: os.NewFile(uintptr(fd), "netlink")} // which closes fd, and waits in the runtime's poller
	if err := l.open(fd, buffer, groups); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Listener) open(fd, buffer int, groups []int) (err error) {
	// Beyond the system's limit needs CAP_NET_ADMIN; less memory means more resynchronization.
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer) != nil {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer); err != nil {
			return fmt.Errorf("set netlink receive buffer to %d bytes: %w", buffer, err)
		}
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("bind netlink socket: %w", err)
	}
	for _, g := range groups {
		// By option, not by Bind's bit mask, which ends before RTNLGRP_NEXTHOP.
		if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, g); err != nil {
			return fmt.Errorf("join netlink group %d: %w", g, err)
		}
	}
	if l.raw, err = l.file.SyscallConn(); err != nil {
		return fmt.Errorf("poll netlink socket: %w", err)
	}
	return nil
}

// Close closes the listener and ends a waiting Receive.
func (l *Listener) Close() error { return l.file.Close() }

// Receive waits for events and fills buf with as many as are there, as messages
// for Next. After ErrOverrun it goes on; os.ErrClosed means the end.
func (l *Listener) Receive(buf []byte) (n int, err error) {
	waitErr := l.raw.Read(func(fd uintptr) bool {
		n, err = receiveAll(int(fd), buf)
		return n > 0 || err != nil
	})
	if waitErr != nil { // without deadlines it can only be Close
		return 0, fmt.Errorf("%w: %v", os.ErrClosed, waitErr)
	}
	return n, err
}

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

// discard empties the socket: until it is empty, the kernel drops what happens
// without reporting it again.
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

// Mark asks the kernel for an answer (NLMSG_ERROR with this number in Seq and no
// error) that comes, among the events, after all that has happened so far.
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
