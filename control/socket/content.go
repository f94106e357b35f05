package socket

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// Content is an answer other than a JSON value. It can continue until the client ends it.
type Content struct {
	Type string // media type
	// Write writes the answer. The context ends when the client requests the end, and then
	// waits for it, or disconnects. A stalled client blocks Write.
	Write func(ctx context.Context, w *ContentWriter) error
}

// ContentWriter writes an answer to the client.
type ContentWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Flush sends buffered data.
func (w *ContentWriter) Flush() error { return w.control.Flush() }

// Note sets an HTTP trailer, sent after the answer.
func (w *ContentWriter) Note(name, value string) { w.Header().Set(http.TrailerPrefix+name, value) }

// write answers a request with the content.
func (c *Content) write(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", c.Type)
	out := &ContentWriter{w, http.NewResponseController(w)}
	if err := out.control.SetWriteDeadline(time.Time{}); err != nil { // deadline of the previous answer on this connection
		return
	}
	if err := out.Flush(); err != nil {
		return
	}
	if err := c.Write(r.Context(), out); err != nil {
		panic(http.ErrAbortHandler) // the client detects the truncated answer
	}
}

// endDelay is the maximum time that a client waits for the requested end.
const endDelay = 2 * time.Second

// Body is a received Content answer. The caller must close it.
type Body struct {
	resp  *http.Response
	close func()
}

// Open sends a GET request for a path with a Content answer to the router at a socket. When ctx
// ends, it requests the end of the answer; the remaining data can still be read.
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
	waiting := context.AfterFunc(ctx, cancel) // no grace period before the answer begins
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
		_ = conn.CloseWrite() // requests the end: the server reads EOF and can still answer
		time.AfterFunc(endDelay, cancel)
	})
	return &Body{resp, func() { stop(); cancel(); resp.Body.Close() }}, nil
}

// Read implements io.Reader. A truncated answer is an error, not io.EOF.
func (b *Body) Read(p []byte) (n int, err error) {
	if n, err = b.resp.Body.Read(p); errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("answer truncated: the router was killed or failed; see its log")
	}
	return n, err
}

// Note returns an HTTP trailer, after Read has returned io.EOF.
func (b *Body) Note(name string) string { return b.resp.Trailer.Get(name) }

// Close closes the connection.
func (b *Body) Close() { b.close() }
