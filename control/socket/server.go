// Package socket implements the control socket: HTTP with JSON over a Unix socket of mode 0600,
// for `warproute show` and `curl --unix-socket`.
//
// A handler returns a value for encoding/json, a Stream that is encoded as a JSON array element by
// element, or Content, which is not JSON and can continue until the client ends it.
package socket

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Handler handles a request without a body. The client receives the text of an error.
type Handler func(*http.Request) (any, error)

// Stream calls yield with each element until it returns false.
type Stream func(yield func(element any) bool)

// Server serves a control socket until Close.
type Server struct {
	http     *http.Server
	listener net.Listener
	done     chan struct{}
}

// Serve listens at path, with mode 0600, and calls a handler for each request. Keys of handlers are
// paths, "/path" for GET requests, or "METHOD /path".
//
// It replaces a stale socket. A socket in use is an error with the name of its process.
func Serve(path string, handlers map[string]Handler) (*Server, error) {
	l, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("open control socket %s: %w", path, err)
	}
	mux := http.NewServeMux()
	for p, h := range handlers {
		if !strings.Contains(p, " ") {
			p = "GET " + p
		}
		mux.Handle(p, answer(h, stallTimeout))
	}
	s := &Server{
		http:     &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second},
		listener: l,
		done:     make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		s.http.Serve(l) // returns when Close closes the listener
	}()
	return s, nil
}

// Close stops the server, waits up to 1 s for requests in progress, and removes the socket.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	<-s.done
	return err
}

// listen binds a socket with mode 0600 from the start: bind(2) uses the mode of the socket's own
// inode.
func listen(path string) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if cerr := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }); cerr != nil {
			return cerr
		}
		return err
	}}
	l, err := config.Listen(context.Background(), "unix", path)
	if errors.Is(err, unix.EADDRINUSE) {
		if err := removeStale(path); err != nil {
			return nil, err
		}
		l, err = config.Listen(context.Background(), "unix", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; choose a path in a directory that this user may write to, by --socket or control.socket", err)
	}
	return l, nil
}

// removeStale removes the socket at path if no process serves it.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode().Type() != os.ModeSocket {
		return errors.New("the path exists and is not a socket; remove it, or set control.socket to another path")
	}
	conn, err := net.Dial("unix", path)
	if errors.Is(err, unix.ECONNREFUSED) {
		return os.Remove(path)
	}
	if err != nil {
		return fmt.Errorf("check whether the socket is in use: %w; choose another path by --socket or control.socket", err)
	}
	defer conn.Close()
	return fmt.Errorf("in use by %s; stop that router, or set control.socket to another path", peer(conn.(*net.UnixConn)))
}

// peer names the process at the other end of a connection.
func peer(conn *net.UnixConn) string {
	raw, err := conn.SyscallConn()
	if err != nil {
		return "another process"
	}
	var cred *unix.Ucred
	cerr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if cerr != nil || err != nil || cred.Pid == 0 { // 0: process in another PID namespace
		return "another process"
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", cred.Pid))
	if err != nil {
		return fmt.Sprintf("process %d", cred.Pid)
	}
	return fmt.Sprintf("process %d (%s)", cred.Pid, strings.TrimSpace(string(comm)))
}

// answer converts a Handler to an HTTP handler with a write timeout.
func answer(h Handler, timeout time.Duration) http.HandlerFunc {
	return func(response http.ResponseWriter, r *http.Request) {
		w := &deadlineWriter{response, http.NewResponseController(response), timeout}
		w.Header().Set("Content-Type", "application/json")
		value, err := h(r)
		if err != nil {
			w.WriteHeader(http.StatusUnprocessableEntity)
			json.NewEncoder(w).Encode(failure{err.Error()})
			return
		}
		switch value := value.(type) {
		case Stream:
			writeArray(w, value)
			return
		case *Content:
			value.write(response, r)
			return
		}
		if json.NewEncoder(w).Encode(value) != nil {
			panic(http.ErrAbortHandler) // the client detects the truncated answer
		}
	}
}

// failure is the body of an error answer.
type failure struct {
	Error string `json:"error"` // error message
}

// writeArray writes one element per line. It stops when the client disconnects or stalls.
func writeArray(w http.ResponseWriter, stream Stream) {
	buf := bufio.NewWriterSize(w, 64<<10)
	enc := json.NewEncoder(buf) // ends each element with a newline
	separator := byte('[')
	stream(func(element any) bool {
		buf.WriteByte(separator)
		separator = ','
		if err := enc.Encode(element); err != nil {
			panic(http.ErrAbortHandler)
		}
		return true
	})
	if separator == '[' {
		buf.WriteByte('[')
	}
	buf.WriteString("]\n")
	if buf.Flush() != nil {
		panic(http.ErrAbortHandler)
	}
}
