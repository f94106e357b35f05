package socket

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"golang.org/x/sys/unix"
)

// Content is an answer that is not one JSON value, and may have no end until the client
// wants no more of it.
type Content struct {
	Type string // of media
	// Write writes it. The context ends when the client asks for the end, which it
	// still waits for, or is gone; a client that stalls blocks it.
	Write func(ctx context.Context, w *ContentWriter) error
}

// ContentWriter takes an answer to the client.
type ContentWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Flush sends what was written so far.
func (w *ContentWriter) Flush() error { return w.control.Flush() }

// Note tells the client something at the end.
func (w *ContentWriter) Note(name, value string) { w.Header().Set(http.TrailerPrefix+name, value) }

// write answers a request with the content.
func (c *Content) write(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", c.Type)
	out := &ContentWriter{w, http.NewResponseController(w)}
	if err := out.control.SetWriteDeadline(time.Time{}); err != nil { // of the answer before on this connection
		return
	}
	if err := out.Flush(); err != nil {
		return
	}
	if err := c.Write(r.Context(), out); err != nil {
		panic(http.ErrAbortHandler) // so that the client does not take half of it for the whole
	}
}

// endDelay is how long a client waits for the end that it has asked for.
const endDelay = 2 * time.Second

// Body is Content as it comes. It is read to its end, and closed.
type Body struct {
	resp  *http.Response
	close func()
}

// Open asks the router at a socket for a path whose answer is Content. When ctx ends, the
// router is asked to come to an end; what it still sends can be read.
func Open(ctx context.Context, socketPath, path string) (*Body, error) {
	var conn *net.UnixConn
	request, cancel := context.WithCancel(context.WithoutCancel(ctx))
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "unix", socketPath)
		if err == nil {
			conn = c.(*net.UnixConn)
		}
		return c, err
	}}
	req, err := http.NewRequestWithContext(request, http.MethodGet, "http://warproute"+path, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	waiting := context.AfterFunc(ctx, cancel) // a router that does not even begin to answer is given up at once
	resp, err := transport.RoundTrip(req)
	waiting()
	if err != nil {
		cancel()
		return nil, dialError(socketPath, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer cancel()
		defer resp.Body.Close()
		return nil, answerError(path, resp)
	}
	stop := context.AfterFunc(ctx, func() {
		_ = conn.CloseWrite() // the server reads the end of what it gets, and can still answer
		time.AfterFunc(endDelay, cancel)
	})
	return &Body{resp, func() { stop(); cancel(); resp.Body.Close() }}, nil
}

// Read is that of an io.Reader. An answer that breaks off is an error, not an end.
func (b *Body) Read(p []byte) (n int, err error) {
	if n, err = b.resp.Body.Read(p); errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it broke off: the router was killed, or could not go on; its log tells")
	}
	return n, err
}

// Note returns what the router told at the end, when that has been read.
func (b *Body) Note(name string) string { return b.resp.Trailer.Get(name) }

// Close gives the connection up.
func (b *Body) Close() { b.close() }

// Gone reports whether an error of writing an answer means that the client left.
func Gone(err error) bool { return errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) }
