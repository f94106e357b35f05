package rtnl

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// errInterrupted reports that a table changed during each attempt to dump it, so that entries can
// be missing.
var errInterrupted = errors.New("the kernel's table changed during each of several dumps")

// attempts is the maximum number of attempts of an interrupted dump.
const attempts = 10

// dumpBuffer is the receive buffer size in bytes. The kernel fills up to 32 KiB per read of a dump.
const dumpBuffer = 256 << 10

// timeout is the maximum time until an answer. Bulk changes can hold the kernel lock for seconds.
var timeout = unix.Timeval{Sec: 60}

// Conn is a netlink connection for requests and their answers. It belongs to the network namespace
// of the opening thread and is not safe for concurrent use.
type Conn struct {
	fd  int
	seq uint32
	buf []byte
}

// Dial opens a connection in the calling thread's network namespace.
func Dial() (*Conn, error) { return DialFamily(unix.NETLINK_ROUTE) }

// DialFamily opens a connection of a netlink family, unix.NETLINK_..., in the calling thread's
// network namespace.
func DialFamily(family int) (*Conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, family)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	c := &Conn{fd: fd, buf: make([]byte, dumpBuffer)}
	// Without strict checking the kernel ignores filters and dumps all entries.
	if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1); err != nil {
		c.Close()
		return nil, fmt.Errorf("ask netlink for strict checking, which needs Linux 5.0: %w", err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		c.Close()
		return nil, fmt.Errorf("set netlink timeout: %w", err)
	}
	return c, nil
}

// Close closes the connection.
func (c *Conn) Close() error {
	if c.fd < 0 {
		return nil
	}
	fd := c.fd
	c.fd = -1
	return unix.Close(fd)
}

// Dump calls f with each message of the answer. An error of f ends the dump and is returned.
//
// If the table changes during the dump, Dump repeats it, and f can receive an entry twice. After
// several interrupted attempts it returns errInterrupted.
func (c *Conn) Dump(q Query, f func(Message) error) error {
	for range attempts {
		interrupted, err := c.dump(q, f)
		if err != nil {
			return fmt.Errorf("dump of netlink type %d: %w", q.kind, err)
		}
		if !interrupted {
			return nil
		}
	}
	return fmt.Errorf("dump of netlink type %d: %w", q.kind, errInterrupted)
}

// dump makes one attempt of a dump.
func (c *Conn) dump(q Query, f func(Message) error) (interrupted bool, err error) {
	c.seq++
	if err := c.send(q.request(c.seq)); err != nil {
		return false, err
	}
	var failed error // first error of f; the remaining answer is still read
	err = c.answers(func(msg Message) (done bool, err error) {
		if msg.Seq != c.seq {
			return false, nil // answer to an earlier, failed dump
		}
		interrupted = interrupted || msg.Flags&unix.NLM_F_DUMP_INTR != 0
		switch msg.Type {
		case unix.NLMSG_DONE:
			return true, failed
		case unix.NLMSG_ERROR:
			return true, msg.Err()
		}
		if failed == nil {
			failed = f(msg)
		}
		return false, nil
	})
	return interrupted, err
}

// Do sends a request and waits for the acknowledgement or error. It calls f, unless nil, with each
// message of the answer.
func (c *Conn) Do(kind, flags uint16, body []byte, f func(Message) error) error {
	c.seq++
	err := c.send(newRequest(kind, flags|unix.NLM_F_ACK, c.seq, body...).bytes())
	if err == nil {
		err = c.answers(func(msg Message) (done bool, err error) {
			switch {
			case msg.Seq != c.seq:
			case msg.Type == unix.NLMSG_ERROR:
				return true, msg.Err()
			case f != nil:
				err = f(msg)
			}
			return false, err
		})
	}
	return wrap(fmt.Sprintf("request of netlink type %d", kind), err)
}

// answers receives messages and calls f with each until f is done or fails.
func (c *Conn) answers(f func(Message) (done bool, err error)) error {
	for {
		n, err := c.receive()
		if err != nil {
			return err
		}
		for b := c.buf[:n]; len(b) > 0; {
			var msg Message
			if msg, b, err = Next(b); err != nil {
				return err
			}
			if done, err := f(msg); done || err != nil {
				return err
			}
		}
	}
}

// Wipe zeroes the receive buffer, which can contain keys.
func (c *Conn) Wipe() { clear(c.buf) }

// UseNeighbor makes Linux resolve or probe a neighbor (NTF_USE). The result is a neighbor event.
func (c *Conn) UseNeighbor(link int, addr netip.Addr) error {
	return wrap(fmt.Sprintf("ask for neighbor %v on link %d", addr, link),
		c.Do(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE, useNeighbor(link, addr), nil))
}

func (c *Conn) send(b []byte) error {
	return unix.Sendto(c.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

func (c *Conn) receive() (int, error) {
	for {
		n, _, err := unix.Recvfrom(c.fd, c.buf, unix.MSG_TRUNC)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, err
		case n > len(c.buf):
			return 0, fmt.Errorf("netlink answer of %d bytes in a buffer of %d: %w", n, len(c.buf), ErrTruncated)
		}
		return n, nil
	}
}
