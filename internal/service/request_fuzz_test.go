package service

import (
	"bufio"
	"bytes"
	"net/http"
	"testing"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/control/socket"
)

// FuzzRequest sends any HTTP request to the handlers that parse queries: each is refused with a
// reason or accepted within the limits of captures.
func FuzzRequest(f *testing.F) {
	for _, query := range []string{
		"", "rx=1&count=5&duration=10s&snaplen=96&filter=tcp+port+80", "drop=1&reason=no_route&port=lan0", "interval=1s", "interval=1ns", "family=4&limit=3",
		"limit=-1", "count=99999999999999999999", "filter=%28%28%28", "snaplen=65536", "rx=1&snaplen=0", "%zz", "duration=-1s",
	} {
		f.Add([]byte("GET /capture?" + query + " HTTP/1.1\r\nHost: warproute\r\n\r\n"))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return
		}
		s := &Service{ports: ports{Set: &afxdp.Set{}}}
		for name, handler := range map[string]socket.Handler{"capture": s.capture, "trace": s.trace, "top": s.top, "routes": s.routes} {
			answer, err := handler(r)
			if (answer == nil) == (err == nil) || err != nil && err.Error() == "" {
				t.Errorf("%s: %v, %v", name, answer, err)
			}
		}
		if cfg, err := s.tapConfig(r.URL.Query()); err == nil && (cfg.Snap < 1 || cfg.Snap > 1<<16-1) {
			t.Errorf("frames of %d bytes are captured", cfg.Snap)
		}
		if l, err := parseLimit(r.URL.Query()); err == nil && (l.count < 0 || l.duration < 0) {
			t.Errorf("a capture of %d packets and %v", l.count, l.duration)
		}
	})
}
