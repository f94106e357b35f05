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
)

// A client that stalls does not keep the router's list, however long that is, and one that
// reads on later does not take what it got for the whole.
func TestAClientThatStallsIsGivenUp(t *testing.T) {
	text := strings.Repeat("x", 8<<20) // more than a socket holds
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
		if s.Listener, err = net.Listen("unix", p); err != nil {
			t.Fatal(err)
		}
		s.Start()
		defer s.Close()
		c, err := net.Dial("unix", p)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		select {
		case <-over:
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: the router waits for it", name)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: after %d bytes its reader is told %v", name, len(got), err)
		}
	}
}

// Who reads slowly gets the same time for every piece.
func TestEveryPieceHasItsTime(t *testing.T) {
	r := &recorder{ResponseWriter: httptest.NewRecorder()}
	w := &impatient{r, http.NewResponseController(r), time.Minute}
	text := bytes.Repeat([]byte("0123456789"), 20_000)
	if n, err := w.Write(text); n != len(text) || err != nil {
		t.Fatal(n, err)
	}
	if got := r.ResponseWriter.(*httptest.ResponseRecorder).Body.Bytes(); !bytes.Equal(got, text) {
		t.Errorf("%d bytes arrived, of %d", len(got), len(text))
	}
	if r.deadlines != 4 || r.pieces != 4 {
		t.Errorf("%d deadlines for %d pieces, want 4", r.deadlines, r.pieces)
	}
}

type recorder struct {
	http.ResponseWriter
	deadlines, pieces int
}

func (r *recorder) Write(p []byte) (int, error)         { r.pieces++; return r.ResponseWriter.Write(p) }
func (r *recorder) SetWriteDeadline(at time.Time) error { r.deadlines++; return nil }
