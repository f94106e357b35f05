// Package socket implements the control socket: HTTP with JSON over a Unix socket, for `warproute show` and
// `curl --unix-socket`.
//
// The user of the router and root may request everything. Members of a group can connect, too, if there is one, and
// may only read.
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
	"log/slog"
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

// Access says who may request what.
type Access struct {
	Group int // whose members may connect and read; -1: none
	// Full has the handlers for root and the user of this process only, by their keys.
	Full map[string]Handler
	Log  *slog.Logger // of requests for Full
}

// Serve listens at path, with mode 0600, or 0660 for a group, and calls a handler for each request. Keys of handlers are
// paths, "/path" for GET requests, or "METHOD /path".
//
// It replaces a stale socket. A socket in use is an error with the name of its process.
func Serve(path string, handlers map[string]Handler, access Access) (*Server, error) {
	l, err := listen(path, access.Group)
	if err != nil {
		return nil, fmt.Errorf("open control socket %s: %w", path, err)
	}
	mux := http.NewServeMux()
	for p, h := range handlers {
		mux.Handle(pattern(p), answer(h, stallTimeout))
	}
	for p, h := range access.Full {
		mux.Handle(pattern(p), access.restrict(answer(h, stallTimeout)))
	}
	s := &Server{
		http:     &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ConnContext: withPeer},
		listener: l,
		done:     make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		s.http.Serve(l) // returns when Close closes the listener
	}()
	return s, nil
}

// pattern returns the pattern of http.ServeMux for the key of a handler.
func pattern(key string) string {
	if strings.Contains(key, " ") {
		return key
	}
	return "GET " + key
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
// inode. Then it gives access to a group, unless that is -1.
func listen(path string, group int) (net.Listener, error) {
	l, err := bind(path)
	if err != nil || group < 0 {
		return l, err
	}
	if err := errors.Join(os.Chown(path, -1, group), os.Chmod(path, 0o660)); err != nil {
		l.Close()
		return nil, fmt.Errorf("%w; the router must be a member of the group to give it access (control.group)", err)
	}
	return l, nil
}

// bind binds a socket with mode 0600, in place of a stale one.
func bind(path string) (net.Listener, error) {
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
	return fmt.Errorf("in use by %s; stop that router, or set control.socket to another path", nameOf(conn))
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
