package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const unixPrefix = "unix:"

func isUnix(address string) bool { return strings.HasPrefix(address, unixPrefix) }

// listenUnix listens at a path, for the user and the group of the socket (mode 0660). The group is that of
// this process, or of the directory if that has the set-group-ID bit. It replaces a stale socket.
func listenUnix(path string) (net.Listener, error) {
	l, err := bindUnix(path)
	if errors.Is(err, unix.EADDRINUSE) {
		if err := removeStale(path); err != nil {
			return nil, err
		}
		l, err = bindUnix(path)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o660); err != nil { // bind(2) subtracts the umask
		l.Close()
		return nil, fmt.Errorf("let the group connect: %w", err)
	}
	return l, nil
}

// bindUnix listens at a path that others cannot connect to from the start, with any umask: bind(2) uses the mode
// of the socket's own inode.
func bindUnix(path string) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		controlErr := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o660) })
		return errors.Join(controlErr, err)
	}}
	return config.Listen(context.Background(), "unix", path)
}

// removeStale removes the socket at path if no process serves it.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode().Type() != os.ModeSocket {
		return errors.New("the path exists and is not a socket")
	}
	conn, err := net.Dial("unix", path)
	if errors.Is(err, unix.ECONNREFUSED) {
		return os.Remove(path)
	}
	if err != nil {
		return fmt.Errorf("check whether the socket is in use: %w", err)
	}
	conn.Close()
	return errors.New("another process serves this socket")
}
