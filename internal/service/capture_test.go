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
	"github.com/warproute/warproute/umem"
)

// Whoever comes when as many capture as may is told so, and can once another has ended.
func TestTooManyCapturesAreTold(t *testing.T) {
	b := newBench(t, [2]func([]byte){func([]byte) {}, func([]byte) {}})
	s := &Service{
		log: slog.New(slog.DiscardHandler), fib: b.fib, router: b.router, ports: &afxdp.Set{Ports: []*afxdp.Port{{Name: "a"}, {Name: "b"}}},
		maxMTU: umem.MaxMTU, ending: make(chan struct{}),
	}
	t.Cleanup(func() { _ = b.protection.close() })
	if err := b.router.Start(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "w.sock")
	server, err := socket.Serve(path, map[string]socket.Handler{"/capture": s.capture, "/trace": s.trace})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	defer close(s.ending)
	for range maxTaps {
		body, err := socket.Open(t.Context(), path, "/capture?rx=1&snaplen=64")
		if err != nil {
			t.Fatal(err)
		}
		defer body.Close()
	}
	for end := time.Now().Add(5 * time.Second); s.tapping.Load() < maxTaps && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	for _, what := range []string{"/capture?rx=1", "/trace"} {
		if _, err := socket.Open(t.Context(), path, what); err == nil || !strings.Contains(err.Error(), "16 captures and traces are running already") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// As much of a frame is kept as there can be, in memory that does not grow with it.
func TestWholeFramesAreKept(t *testing.T) {
	for _, c := range []struct {
		mtu, snap int
		query     string
	}{
		{umem.MaxMTU, umem.MaxFrameLen, ""}, {umem.MaxLargeMTU, umem.MaxLargeLen, ""},
		{umem.MaxLargeMTU, 9014, "snaplen=9014"}, {umem.MaxMTU, 30, "snaplen=30"},
	} {
		s := &Service{maxMTU: c.mtu, ports: &afxdp.Set{}}
		q, _ := url.ParseQuery(c.query)
		if cfg, err := s.tapConfig(q); err != nil || cfg.Snap != c.snap {
			t.Errorf("of an MTU of %d, %q: %d bytes, want %d: %v", c.mtu, c.query, cfg.Snap, c.snap, err)
		}
	}
}
