package socket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
)

func path(t *testing.T) string { return filepath.Join(t.TempDir(), "w.sock") }

func serve(t *testing.T, path string, handlers map[string]Handler) *Server {
	t.Helper()
	s, err := Serve(path, handlers, Access{Group: -1})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func numbers(n int) Handler {
	return func(*http.Request) (any, error) {
		return Stream(func(yield func(any) bool) {
			for i := range n {
				if !yield(i) {
					return
				}
			}
		}), nil
	}
}

func TestGetReturnsAnswersAndErrors(t *testing.T) {
	p := path(t)
	serve(t, p, map[string]Handler{
		"/ports":  func(*http.Request) (any, error) { return map[string]int{"lan0": 1}, nil },
		"/route":  func(r *http.Request) (any, error) { return r.URL.Query().Get("addr"), nil },
		"/refuse": func(*http.Request) (any, error) { return nil, errors.New("address \"x\" is not one") },
		"/broken": func(*http.Request) (any, error) {
			return Stream(func(yield func(any) bool) { yield(1); yield(func() {}) }), nil
		},
	})
	ctx := context.Background()

	var ports map[string]int
	if err := Get(ctx, p, "/ports", &ports); err != nil || ports["lan0"] != 1 {
		t.Errorf("/ports: %v, %v", ports, err)
	}
	var addr string
	if err := Get(ctx, p, "/route?addr=2001:db8::1", &addr); err != nil || addr != "2001:db8::1" {
		t.Errorf("/route: %q, %v", addr, err)
	}
	if err := Get(ctx, p, "/refuse", &addr); err == nil || err.Error() != `address "x" is not one` {
		t.Errorf("a handler's error: %v", err)
	}
	if err := Get(ctx, p, "/sas", &addr); err == nil || !strings.Contains(err.Error(), "does not know /sas") {
		t.Errorf("an unknown path: %v", err)
	}
	if err := Get(ctx, p, "/ports", &addr); err == nil || !strings.Contains(err.Error(), "read the router's answer about /ports") {
		t.Errorf("an answer of another type: %v", err)
	}
	var broken []int
	if err := Get(ctx, p, "/broken", &broken); err == nil {
		t.Errorf("no error from a truncated stream: %v", broken)
	}
}

func TestStreamIsEncodedAsAnArray(t *testing.T) {
	p := path(t)
	serve(t, p, map[string]Handler{"/0": numbers(0), "/1": numbers(1), "/many": numbers(100_000)})
	for url, n := range map[string]int{"/0": 0, "/1": 1, "/many": 100_000} {
		var whole, each []int
		require.NoError(t, Get(t.Context(), p, url, &whole))
		require.NoError(t, Each(t.Context(), p, url, func(i int) error { each = append(each, i); return nil }))
		if len(whole) != n || !slices.Equal(whole, each) {
			t.Errorf("%s: Get read %d, Each %d elements, want %d", url, len(whole), len(each), n)
		}
	}
	enough := errors.New("enough")
	if err := Each(t.Context(), p, "/many", func(int) error { return enough }); err != enough {
		t.Errorf("Each returned %v, want the caller's own error", err)
	}
}

func TestSocketHasMode0600(t *testing.T) {
	p := path(t)
	serve(t, p, nil)
	info, err := os.Stat(p)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v, %v; want 0600", info.Mode(), err)
	}
}

func TestCloseRemovesTheSocket(t *testing.T) {
	p := path(t)
	require.NoError(t, serve(t, p, nil).Close())
	if _, err := os.Stat(p); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	err := Get(t.Context(), p, "/ports", nil)
	want := "no router is running at " + p + ": `systemctl status warproute` says why it ended; start one with `warproute run`, or name its socket with --socket"
	if !errors.Is(err, ErrNoRouter) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestServeReplacesStaleSockets(t *testing.T) {
	p := path(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: p, Net: "unix"})
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	l.Close()
	if err := Get(t.Context(), p, "/1", nil); !errors.Is(err, ErrNoRouter) {
		t.Errorf("Get from a stale socket: %v", err)
	}
	serve(t, p, map[string]Handler{"/1": numbers(1)})
	var got []int
	if err := Get(t.Context(), p, "/1", &got); err != nil {
		t.Error(err)
	}
}

func TestSocketInUseNamesItsProcess(t *testing.T) {
	p := path(t)
	serve(t, p, map[string]Handler{"/1": numbers(1)})
	_, err := Serve(p, nil, Access{Group: -1})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d (", os.Getpid())) {
		t.Errorf("got %v, want the name of process %d", err, os.Getpid())
	}
	var got []int
	if err := Get(t.Context(), p, "/1", &got); err != nil {
		t.Errorf("the running router was disturbed: %v", err)
	}
}

func TestServeKeepsRegularFiles(t *testing.T) {
	p := path(t)
	require.NoError(t, os.WriteFile(p, []byte("precious"), 0o600))
	if _, err := Serve(p, nil, Access{Group: -1}); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("got %v", err)
	}
	if data, _ := os.ReadFile(p); string(data) != "precious" {
		t.Error("the file was replaced")
	}
}

func TestCloseDoesNotWaitForSlowClients(t *testing.T) {
	p := path(t)
	started, release := make(chan struct{}), make(chan struct{})
	s := serve(t, p, map[string]Handler{"/slow": func(*http.Request) (any, error) {
		close(started)
		<-release
		return nil, nil
	}})
	answered := make(chan error)
	go func() { answered <- Get(context.Background(), p, "/slow", nil) }()
	<-started
	begin := time.Now()
	s.Close()
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("Close took %v", took)
	}
	close(release)
	<-answered
}

// TestOpenReturnsWhenItsContextEnds uses a server that never answers.
func TestOpenReturnsWhenItsContextEnds(t *testing.T) {
	p := path(t)
	l, err := net.Listen("unix", p) // accepts connections without answering
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := Open(ctx, p, "/top")
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Open returned %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("Open still waits")
	}
}

func TestListenErrorsSuggestAnotherPath(t *testing.T) {
	_, err := Serve(filepath.Join(t.TempDir(), "absent", "w.sock"), nil, Access{Group: -1})
	if err == nil || !strings.Contains(err.Error(), "by --socket or control.socket") {
		t.Errorf("got %v", err)
	}
}

func TestTruncatedContentIsAnError(t *testing.T) {
	p := path(t)
	serve(t, p, map[string]Handler{"/trace": func(*http.Request) (any, error) {
		return &Content{Write: func(_ context.Context, w *ContentWriter) error {
			io.WriteString(w, "half of ")
			return errors.New("tap failed")
		}}, nil
	}})
	body, err := Open(t.Context(), p, "/trace")
	require.NoError(t, err)
	defer body.Close()
	if got, err := io.ReadAll(body); err == nil || !strings.Contains(err.Error(), "answer truncated") {
		t.Errorf("got %q, %v", got, err)
	}
}
