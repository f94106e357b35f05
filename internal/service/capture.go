package service

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/capture"
	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/dataplane"
)

// A capture buffers up to captureRoom frames per worker, and fewer jumbo frames: captureBytes.
const (
	captureRoom  = 4096
	captureBytes = 16 << 20
)

// capture answers /capture?port=&point=&reason=&count=&duration=&snaplen=&filter= with a
// pcapng file that ends at the limits or when the client disconnects.
func (s *Service) capture(r *http.Request) (any, error) {
	q := r.URL.Query()
	cfg, err := s.tapConfig(q)
	if err != nil {
		return nil, err
	}
	cfg.Room = min(captureRoom, captureBytes/cfg.Snap)
	for name, p := range map[string]dataplane.Point{"rx": dataplane.Received, "tx": dataplane.Sent, "drop": dataplane.Dropped} {
		cfg.Points[p] = q.Get(name) != ""
	}
	if cfg.Points == [dataplane.NumPoints]bool{} {
		return nil, fmt.Errorf("nothing to capture: rx, tx and drop are all off")
	}
	until, err := parseLimit(q)
	if err != nil {
		return nil, err
	}
	return &socket.Content{Type: "application/x-pcapng", Write: func(ctx context.Context, w *socket.ContentWriter) error {
		file, err := capture.NewWriter(w, s.ports.first(), cfg.Snap, q.Get("filter"))
		if err != nil {
			return err
		}
		file.Name = s.ports.nameOf
		flush := func() error {
			if err := file.Flush(); err != nil {
				return err
			}
			return w.Flush()
		}
		captured := 0
		write := func(r *dataplane.Record) error {
			captured++
			return file.Write(r)
		}
		tap, err := s.follow(ctx, cfg, until, write, flush)
		if err != nil {
			return err
		}
		if err := file.End(tap.Counts); err != nil {
			return err
		}
		w.Note("Captured", strconv.Itoa(captured))
		w.Note("Missed", strconv.FormatUint(missed(tap, batch.MaxPorts), 10))
		return nil
	}}, nil
}

// missed returns the number of packets that a tap had no room for.
func missed(t *dataplane.Capture, ports int) (n uint64) {
	for p := range ports {
		_, m := t.Counts(p)
		n += m
	}
	return n
}
