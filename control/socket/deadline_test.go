package socket

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
)

// TestStalledClientsAreDisconnected also checks that the client detects the truncated answer.
func TestStalledClientsAreDisconnected(t *testing.T) {
	text := strings.Repeat("x", 8<<20) // exceeds the socket buffers
	for name, h := range map[string]Handler{
		"a stream": func(*http.Request) (any, error) {
			return Stream(func(yield func(any) bool) {
				for from := 0; from < len(text); from += 1024 {
					yield(text[from : from+1024])
				}
			}), nil
		},
		"a value": func(*http.Request) (any, error) { return text, nil },
	} {
		over := make(chan struct{})
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(over)
			answer(h, 50*time.Millisecond)(w, r)
		}))
		s.Listener.Close()
		p := path(t)
		var err error
		s.Listener, err = net.Listen("unix", p)
		require.NoError(t, err)
		s.Start()
		defer s.Close()
		c, err := net.Dial("unix", p)
		require.NoError(t, err)
		defer c.Close()
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		select {
		case <-over:
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: the handler still waits for the client", name)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		if got, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: error after %d bytes: %v", name, len(got), err)
		}
	}
}

func TestEachWriteHasItsOwnDeadline(t *testing.T) {
	r := &recorder{ResponseWriter: httptest.NewRecorder()}
	w := &deadlineWriter{r, http.NewResponseController(r), time.Minute}
	text := bytes.Repeat([]byte("0123456789"), 20_000)
	if n, err := w.Write(text); n != len(text) || err != nil {
		t.Fatal(n, err)
	}
	if got := r.ResponseWriter.(*httptest.ResponseRecorder).Body.Bytes(); !bytes.Equal(got, text) {
		t.Errorf("%d bytes arrived, of %d", len(got), len(text))
	}
	if r.deadlines != 4 || r.writes != 4 {
		t.Errorf("%d deadlines for %d writes, want 4", r.deadlines, r.writes)
	}
}

// recorder counts deadlines and writes.
type recorder struct {
	http.ResponseWriter
	deadlines, writes int
}

func (r *recorder) Write(p []byte) (int, error)         { r.writes++; return r.ResponseWriter.Write(p) }
func (r *recorder) SetWriteDeadline(at time.Time) error { r.deadlines++; return nil }
