// Package socket is the router's control socket: HTTP with JSON over a Unix
// socket that only its owner may open, so that `curl --unix-socket` reads it as
// well as `warproute show`.
//
// A handler answers a GET with any value that encoding/json can write, or with a
// Stream of them, which becomes a JSON array without ever being one in memory; or with
// Content, which is not JSON and goes on until the client wants no more.
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

// Handler answers a request, which has no body. An error's text goes to the client.
type Handler func(*http.Request) (any, error)

// Stream calls yield with each element until it returns false.
type Stream func(yield func(element any) bool)

// Server serves a control socket until it is closed.
type Server struct {
	http     *http.Server
	listener net.Listener
	done     chan struct{}
}

// Serve listens at path and answers GET requests of the handlers' paths, each of
// which begins with a slash, or with another method and a space before that. The socket's mode is 0600. A socket that a dead
// process left is replaced; one that is served is an error which names who does.
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
		mux.Handle(p, answer(h, patience))
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

// Close stops serving, gives requests in progress a second to end, and removes
// the socket.
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

// listen binds a socket that has its mode from the start: bind(2) takes the
// mode of the socket's own inode, so there is no moment in which others may open it.
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

// removeStale removes the socket at path if nobody serves it.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode().Type() != os.ModeSocket {
		return errors.New("something that is not a socket is in the way; remove it, or set control.socket to another path")
	}
	conn, err := net.Dial("unix", path)
	if errors.Is(err, unix.ECONNREFUSED) {
		return os.Remove(path)
	}
	if err != nil {
		return fmt.Errorf("find out whether the socket there is in use: %w; choose another path by --socket or control.socket", err)
	}
	defer conn.Close()
	return fmt.Errorf("%s serves it already; stop that router, or set control.socket to another path", peer(conn.(*net.UnixConn)))
}

// peer names the process at the other end of a connection.
func peer(conn *net.UnixConn) string {
	raw, err := conn.SyscallConn()
	if err != nil {
		return "another process"
	}
	var cred *unix.Ucred
	cerr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if cerr != nil || err != nil || cred.Pid == 0 { // 0: of another PID namespace
		return "another process"
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", cred.Pid))
	if err != nil {
		return fmt.Sprintf("process %d", cred.Pid)
	}
	return fmt.Sprintf("process %d (%s)", cred.Pid, strings.TrimSpace(string(comm)))
}

// answer makes an HTTP handler of a Handler.
func answer(h Handler, patience time.Duration) http.HandlerFunc {
	return func(response http.ResponseWriter, r *http.Request) {
		w := &impatient{response, http.NewResponseController(response), patience}
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
			panic(http.ErrAbortHandler) // so that the client does not take half of it for the whole
		}
	}
}

// failure is the body of an answer that is an error.
type failure struct {
	Error string `json:"error"`
}

// writeArray writes one element a line. It stops when the client has gone, or stalls.
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
