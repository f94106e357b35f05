// Package web serves HTTP at an address that a reload can change: metrics and the status page.
package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Server serves requests until Close.
type Server struct {
	http     *http.Server
	listener net.Listener
}

// Serve listens at an address, "host:port", that is the value of a key of the configuration.
func Serve(key, address string, h http.Handler) (*Server, error) {
	return serve(new(net.ListenConfig), key, address, h)
}

// ServeBeside is like Serve on an address that overlaps the address of s, such as 127.0.0.1:9273
// and :9273. s continues until its Close.
func (s *Server) ServeBeside(key, address string, h http.Handler) (*Server, error) {
	old, err := s.listener.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil, err
	}
	share := func(c syscall.RawConn, with int) (err error) {
		controlErr := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, with) })
		return errors.Join(controlErr, err)
	}
	if err := share(old, 1); err != nil {
		return nil, err
	}
	defer share(old, 0)
	now, err := serve(&net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return share(c, 1) }}, key, address, h)
	if err != nil {
		return nil, err
	}
	if c, err := now.listener.(syscall.Conn).SyscallConn(); err == nil {
		share(c, 0) // no third listener
	}
	return now, nil
}

// serve listens with a socket configuration.
func serve(config *net.ListenConfig, key, address string, h http.Handler) (*Server, error) {
	l, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w; set %s to another address, or to \"\" for none", address, err, key)
	}
	s := &Server{&http.Server{
		Handler: h,
		// Stalled clients are disconnected.
		ReadHeaderTimeout: 5 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 5 * time.Minute,
	}, l}
	go s.http.Serve(l) // returns when Close closes the listener
	return s, nil
}

// Addr returns the listen address.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close stops the server after waiting up to 1 s for requests in progress.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	s.listener.Close() // http does not know it before Serve runs
	return err
}
