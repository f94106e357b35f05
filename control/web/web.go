// Package web serves HTTP at an address that a reload can change: metrics and the status page.
package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	toolkit "github.com/prometheus/exporter-toolkit/web"
	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"
)

// Endpoint describes a server.
type Endpoint struct {
	Key         string // of the configuration that has the address, for errors
	Listen      string // "host:port", or "unix:" and the path of a Unix socket
	WebConfig   string // path of a Prometheus web configuration file (TLS, passwords); "" for none
	Connections int    // most at a time, further ones wait; 0: any number
	Log         *slog.Logger
	Handler     http.Handler
}

// Server serves requests until Close.
type Server struct {
	http     *http.Server
	listener net.Listener
	done     chan struct{} // closed when the server does not accept connections anymore
	err      error         // of the server, after done
}

// Timeouts of a server with a limit of connections: none may occupy its place for long.
const (
	requestTimeout = 5 * time.Second  // of a TLS handshake, of a request's header, and of an idle connection
	readTimeout    = 10 * time.Second // of a request
	writeTimeout   = 30 * time.Second // of a request and its answer
	maxHeader      = 16 << 10         // bytes; the cache of passwords keeps what clients send
)

// Serve starts a server.
func Serve(e Endpoint) (*Server, error) { return serve(new(net.ListenConfig), e) }

// ServeBeside is like Serve at an address that overlaps the address of s, such as 127.0.0.1:9273
// and :9273. s continues until its Close.
func (s *Server) ServeBeside(e Endpoint) (*Server, error) {
	if s.listener.Addr().Network() != "tcp" || isUnix(e.Listen) {
		return Serve(e)
	}
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
	now, err := serve(&net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return share(c, 1) }}, e)
	if err != nil {
		return nil, err
	}
	if c, err := now.listener.(syscall.Conn).SyscallConn(); err == nil {
		share(c, 0) // no third listener
	}
	return now, nil
}

// serve listens with a socket configuration.
func serve(config *net.ListenConfig, e Endpoint) (*Server, error) {
	if err := toolkit.Validate(e.WebConfig); err != nil {
		return nil, fmt.Errorf("read web configuration %s: %w; fix the file, or set another one", e.WebConfig, err)
	}
	l, err := listen(config, e.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w; set %s to another address, or to \"\" for none", e.Listen, err, e.Key)
	}
	s := &Server{listener: l, done: make(chan struct{}), http: &http.Server{
		Handler: e.Handler,
		// Stalled clients are disconnected.
		ReadHeaderTimeout: requestTimeout, WriteTimeout: time.Minute, IdleTimeout: 5 * time.Minute,
	}}
	accept := l
	if e.Connections > 0 {
		accept = netutil.LimitListener(l, e.Connections)
		s.http.ReadTimeout, s.http.WriteTimeout, s.http.IdleTimeout, s.http.MaxHeaderBytes = readTimeout, writeTimeout, requestTimeout, maxHeader
		s.http.SetKeepAlivesEnabled(false) // clients without a password could keep all connections
	}
	log := slog.New(slog.DiscardHandler)
	if e.Log != nil {
		log = slog.New(&sparse{log: e.Log, key: e.Key})
		s.http.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	}
	ready := &readyListener{Listener: accept, ready: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.err = toolkit.Serve(ready, s.http, &toolkit.FlagConfig{WebConfigFile: &e.WebConfig}, log) // returns when Close closes the listener
		l.Close()
	}()
	// The toolkit reads the file again and decides on TLS. Until it accepts connections, a change of the file
	// could disable TLS.
	select {
	case <-ready.ready:
		return s, nil
	case <-s.done:
		return nil, fmt.Errorf("serve at %s: %w; check %s", e.Listen, s.err, e.WebConfig)
	}
}

// readyListener closes ready at the first Accept.
type readyListener struct {
	net.Listener
	once  sync.Once
	ready chan struct{}
}

func (l *readyListener) Accept() (net.Conn, error) {
	l.once.Do(func() { close(l.ready) })
	return l.Listener.Accept()
}

// listen opens a socket for "host:port", or for "unix:" and a path.
func listen(config *net.ListenConfig, address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, unixPrefix); ok {
		return listenUnix(path)
	}
	return config.Listen(context.Background(), "tcp", address)
}

// Addr returns the listen address.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close stops the server after waiting up to 1 s for requests in progress. It removes a Unix socket.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	<-s.done
	return err
}
