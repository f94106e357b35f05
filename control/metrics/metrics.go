// Package metrics exports the counters of a router to Prometheus.
//
// Each scrape converts one status.Snapshot. Labels are bounded: ports, reasons, stages, causes, and
// SA names, which do not change at a rekey.
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

// Build describes the binary: the labels of build_info.
type Build struct {
	Version   string `json:"version"`        // release version
	Revision  string `json:"revision"`       // Git revision
	Date      string `json:"date,omitempty"` // of the revision, RFC 3339
	GoVersion string `json:"go"`             // Go version
}

// Handler serves snapshots, and metrics of the process and the Go runtime.
func Handler(build Build, snapshot func() *status.Snapshot) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(&collector{build, snapshot}, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

// Server serves /metrics until Close.
type Server struct {
	http     *http.Server
	listener net.Listener
}

// Serve listens at an address, "host:port", and serves h at /metrics.
func Serve(address string, h http.Handler) (*Server, error) {
	return serve(new(net.ListenConfig), address, h)
}

// ServeBeside is like Serve on an address that overlaps the address of s, such as 127.0.0.1:9273
// and :9273. s continues until its Close.
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
		share(c, 0) // no third listener
	}
	return now, nil
}

// serve listens with a socket configuration and serves h at /metrics.
func serve(config *net.ListenConfig, address string, h http.Handler) (*Server, error) {
	l, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve metrics at %s: %w; set metrics.listen to another address, or to \"\" for none", address, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", h)
	s := &Server{&http.Server{
		Handler: mux,
		// Stalled clients are disconnected.
		ReadHeaderTimeout: 5 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 5 * time.Minute,
	}, l}
	go s.http.Serve(l) // returns when Close closes the listener
	return s, nil
}

// Addr returns the listen address.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close stops the server after waiting up to 1 s for a scrape in progress.
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
