package service

import (
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/umem"
)

func TestCapturesBeyondTheLimitAreRefused(t *testing.T) {
	b := newBench(t, [2]func([]byte){func([]byte) {}, func([]byte) {}})
	s := &Service{
		log: slog.New(slog.DiscardHandler), fib: b.fib, router: b.router,
		ports:  ports{Set: &afxdp.Set{Ports: []*afxdp.Port{{Name: "a"}, {Name: "b"}}}},
		memory: memory{maxMTU: umem.MaxMTU}, background: background{ending: make(chan struct{})},
	}
	t.Cleanup(func() { _ = b.ipsecGateway.close() })
	require.NoError(t, b.router.Start())
	path := filepath.Join(t.TempDir(), "w.sock")
	server, err := socket.Serve(path, map[string]socket.Handler{"/capture": s.capture, "/trace": s.trace}, socket.Access{Group: -1})
	require.NoError(t, err)
	defer server.Close()
	defer close(s.ending)
	for range maxTaps {
		body, err := socket.Open(t.Context(), path, "/capture?rx=1&snaplen=64")
		require.NoError(t, err)
		defer body.Close()
	}
	for end := time.Now().Add(5 * time.Second); s.taps.Load() < maxTaps && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	for _, query := range []string{"/capture?rx=1", "/trace"} {
		if _, err := socket.Open(t.Context(), path, query); err == nil || !strings.Contains(err.Error(), "16 captures and traces are running already") {
			t.Errorf("%s: %v", query, err)
		}
	}
}

func TestSnapLengthDefaultsToTheLargestFrame(t *testing.T) {
	for _, c := range []struct {
		mtu, snap int
		query     string
	}{
		{umem.MaxMTU, umem.MaxFrameLen, ""}, {umem.MaxLargeMTU, umem.MaxLargeLen, ""},
		{umem.MaxLargeMTU, 9014, "snaplen=9014"}, {umem.MaxMTU, 30, "snaplen=30"},
	} {
		s := &Service{memory: memory{maxMTU: c.mtu}, ports: ports{Set: &afxdp.Set{}}}
		q, _ := url.ParseQuery(c.query)
		if cfg, err := s.tapConfig(q); err != nil || cfg.Snap != c.snap {
			t.Errorf("MTU %d, query %q: %d bytes, want %d: %v", c.mtu, c.query, cfg.Snap, c.snap, err)
		}
	}
}
