package service

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
)

// top answers /top?interval=1s with one status.Top per interval and line, until the client
// disconnects.
func (s *Service) top(r *http.Request) (any, error) {
	interval := time.Second
	if text := r.URL.Query().Get("interval"); text != "" {
		var err error
		if interval, err = time.ParseDuration(text); err != nil || interval < 100*time.Millisecond || interval > time.Minute {
			return nil, fmt.Errorf("interval %q is not a time from 100ms to 1m", text)
		}
	}
	return &socket.Content{Type: "application/x-ndjson", Write: func(ctx context.Context, w *socket.ContentWriter) error {
		lines := json.NewEncoder(w)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for before, at := s.Snapshot(), time.Now(); ; {
			select {
			case <-ctx.Done():
				return nil
			case <-s.ending:
				return nil
			case <-tick.C:
			}
			snapshot, now := s.Snapshot(), time.Now()
			if err := lines.Encode(status.TopOf(before, snapshot, now.Sub(at))); err != nil {
				return err
			}
			if err := w.Flush(); err != nil {
				return err
			}
			before, at = snapshot, now
		}
	}}, nil
}
