// Package metrics offers what a router counts to Prometheus.
//
// Nothing is counted twice: a scrape takes one status.Snapshot and writes it in
// Prometheus' terms. Labels are bounded: ports, reasons, stages, causes; and associations by
// their names, which those that replace others keep.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/status"
)

// Build says what is running, for build_info.
type Build struct {
	Version   string `json:"version"`
	Revision  string `json:"revision"`
	GoVersion string `json:"go"`
}

// Handler answers scrapes with snapshots, and with the process's own metrics.
func Handler(build Build, snapshot func() *status.Snapshot) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(NewCollector(build, snapshot), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

// Server serves /metrics until it is closed.
type Server struct {
	http     *http.Server
	listener net.Listener
}

// Serve listens at an address, "host:port", and serves h at /metrics.
func Serve(address string, h http.Handler) (*Server, error) {
	return serve(new(net.ListenConfig), address, h)
}

// ServeBeside is Serve where a server may be at the same port of other addresses, as
// 127.0.0.1:9273 is beside :9273. That one goes on until it is closed.
func (s *Server) ServeBeside(address string, h http.Handler) (*Server, error) {
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
	now, err := serve(&net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return share(c, 1) }}, address, h)
	if err != nil {
		return nil, err
	}
	if c, err := now.listener.(syscall.Conn).SyscallConn(); err == nil {
		share(c, 0) // with nobody else
	}
	return now, nil
}

func serve(config *net.ListenConfig, address string, h http.Handler) (*Server, error) {
	l, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve metrics at %s: %w; set metrics.listen to another address, or to \"\" for none", address, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", h)
	s := &Server{&http.Server{
		Handler: mux,
		// Whoever stalls keeps nothing of ours.
		ReadHeaderTimeout: 5 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 5 * time.Minute,
	}, l}
	go s.http.Serve(l) // returns when Close closes the listener
	return s, nil
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close stops the server; a scrape in progress has a second to end.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	s.listener.Close() // of which http does not know before Serve has begun
	return err
}
