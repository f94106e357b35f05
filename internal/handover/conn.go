package handover

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is one end of the connection.
type Conn struct{ unix *net.UnixConn }

// Limits of a message. A process with 100,000 SAs of large windows sends less.
const (
	maxMessage  = 1 << 30
	maxFiles    = 1 << 12
	filesAtOnce = 128 // Linux permits 253 in a control message
)

// Pair returns a connection, and the file of its other end for another process.
func Pair() (*Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("create a pair of sockets: %w", err)
	}
	other := os.NewFile(uintptr(fds[1]), "handover")
	c, err := newConn(fds[0])
	if err != nil {
		return nil, nil, errors.Join(err, other.Close())
	}
	return c, other, nil
}

// Inherit returns the connection at a file descriptor that the parent process has passed.
func Inherit(fd int) (*Conn, error) {
	unix.CloseOnExec(fd)
	c, err := newConn(fd)
	if err != nil {
		return nil, fmt.Errorf("file descriptor %d is not the connection of a router that hands over: %w", fd, err)
	}
	return c, nil
}

func newConn(fd int) (*Conn, error) {
	file := os.NewFile(uintptr(fd), "handover")
	if file == nil {
		return nil, unix.EBADF
	}
	defer file.Close()
	c, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(unix.ENOTSOCK, c.Close())
	}
	return &Conn{u}, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.unix.Close() }

// Deadline sets the time at which Send and Receive give up, zero for none.
func (c *Conn) Deadline(t time.Time) { _ = c.unix.SetDeadline(t) }

// Send sends a message with file descriptors, which the caller still closes.
func (c *Conn) Send(m Message, files ...int) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	head := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	head = binary.BigEndian.AppendUint32(head, uint32(len(files)))
	if _, err := c.unix.Write(append(head, body...)); err != nil {
		return fmt.Errorf("send %s: %w", m.Kind, err)
	}
	for len(files) > 0 {
		n := min(len(files), filesAtOnce)
		if _, _, err := c.unix.WriteMsgUnix([]byte{0}, unix.UnixRights(files[:n]...), nil); err != nil {
			return fmt.Errorf("send the files of %s: %w", m.Kind, err)
		}
		files = files[n:]
	}
	return nil
}

// Receive receives a message of a kind, with its file descriptors. Another kind is an error, also Failed.
func (c *Conn) Receive(kind string) (m Message, files []int, err error) {
	var head [8]byte
	if _, err = io.ReadFull(c.unix, head[:]); err != nil {
		return m, nil, fmt.Errorf("wait for %s: %w", kind, err)
	}
	length, n := binary.BigEndian.Uint32(head[:]), binary.BigEndian.Uint32(head[4:])
	if length > maxMessage || n > maxFiles {
		return m, nil, fmt.Errorf("wait for %s: a message of %d bytes and %d files", kind, length, n)
	}
	body, err := io.ReadAll(io.LimitReader(c.unix, int64(length)))
	if err == nil && len(body) < int(length) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return m, nil, fmt.Errorf("receive %s: %w", kind, err)
	}
	if files, err = c.receiveFiles(int(n)); err == nil {
		err = json.Unmarshal(body, &m)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("receive %s: %w", kind, err)
	case m.Kind == KindFailed:
		err = errors.New(m.Error)
	case m.Kind != kind, kind == KindOffer && m.Offer == nil, kind == KindReady && m.Ready == nil, kind == KindState && m.State == nil:
		err = fmt.Errorf("wait for %s: received %q", kind, m.Kind)
	}
	if err != nil {
		CloseAll(files)
		return m, nil, err
	}
	return m, files, nil
}

func (c *Conn) receiveFiles(n int) (files []int, err error) {
	oob := make([]byte, unix.CmsgSpace(4*filesAtOnce))
	for len(files) < n {
		var b [1]byte
		got, size, _, _, err := c.unix.ReadMsgUnix(b[:], oob)
		if err == nil && got == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return files, err
		}
		before := len(files)
		messages, err := unix.ParseSocketControlMessage(oob[:size])
		if err != nil {
			return files, err
		}
		for _, m := range messages {
			fds, err := unix.ParseUnixRights(&m)
			if err != nil {
				return files, err
			}
			for _, fd := range fds {
				unix.CloseOnExec(fd)
				files = append(files, fd)
			}
		}
		if len(files) == before {
			return files, errors.New("a message without its files")
		}
	}
	if len(files) > n {
		return files, fmt.Errorf("%d files, not %d", len(files), n)
	}
	return files, nil
}

// CloseAll closes file descriptors.
func CloseAll(files []int) {
	for _, fd := range files {
		_ = unix.Close(fd)
	}
}
