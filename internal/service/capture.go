package service

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/capture"
	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/packet/filter"
)

// What captures and traces may cost at most: a capture keeps captureRoom frames of each
// worker that were not sent to the client yet, and less of jumbo frames: captureBytes.
const (
	maxTaps      = 16
	captureRoom  = 4096
	captureBytes = 16 << 20
	tapInterval  = 2 * time.Millisecond // between looks at a tap
)

// capture answers /capture?port=&point=&reason=&count=&duration=&snaplen=&filter= with a
// pcapng file that goes on until the client wants no more.
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
	until, err := limitOf(q)
	if err != nil {
		return nil, err
	}
	return &socket.Content{Type: "application/x-pcapng", Write: func(ctx context.Context, w *socket.ContentWriter) error {
		file, err := capture.NewWriter(w, s.portNames(), cfg.Snap, q.Get("filter"))
		if err != nil {
			return err
		}
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
		w.Note("Missed", strconv.FormatUint(missed(tap, len(s.ports.Ports)), 10))
		return nil
	}}, nil
}

func missed(t *dataplane.Tap, ports int) (n uint64) {
	for p := range ports {
		_, m := t.Counts(p)
		n += m
	}
	return n
}

// limit is when enough was seen.
type limit struct {
	count    int // 0: never
	duration time.Duration
}

func limitOf(q url.Values) (l limit, err error) {
	if text := q.Get("count"); text != "" {
		if l.count, err = strconv.Atoi(text); err != nil || l.count < 0 {
			return l, fmt.Errorf("count %q is not a number of packets", text)
		}
	}
	if text := q.Get("duration"); text != "" {
		if l.duration, err = time.ParseDuration(text); err != nil || l.duration < 0 {
			return l, fmt.Errorf("duration %q is not one such as 10s", text)
		}
	}
	return l, nil
}

var errTooMany = fmt.Errorf("%d captures and traces are running already: end one of them first", maxTaps)

// tapConfig reads what captures and traces have in common.
func (s *Service) tapConfig(q url.Values) (cfg dataplane.TapConfig, err error) {
	if s.tapping.Load() >= maxTaps { // once the answer has begun, there are no words for that
		return cfg, errTooMany
	}
	if cfg.Filter, err = filter.Parse(q.Get("filter")); err != nil {
		return cfg, err
	}
	names := s.portNames()
	for _, name := range q["port"] {
		if cfg.Ports == nil {
			cfg.Ports = make([]bool, len(names))
		}
		found := false
		for i, n := range names {
			if n == name {
				cfg.Ports[i], found = true, true
			}
		}
		if !found {
			return cfg, fmt.Errorf("%q is not a port of this router; its ports are %s", name, strings.Join(names, ", "))
		}
	}
	for _, name := range q["reason"] {
		reason, found := batch.ParseReason(name)
		if !found {
			return cfg, fmt.Errorf("%q is not a reason for drops; `warproute capture --help` lists them", name)
		}
		cfg.Reasons[reason] = true
	}
	if len(q["reason"]) == 0 {
		for i := range cfg.Reasons {
			cfg.Reasons[i] = true
		}
	}
	cfg.Snap = capture.MaxSnap
	if text := q.Get("snaplen"); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return cfg, fmt.Errorf("snaplen %q is not a number of bytes from 1 to %d", text, capture.MaxSnap)
		}
		cfg.Snap = int(n)
	}
	cfg.Snap = min(cfg.Snap, s.maxMTU+packet.EthernetLen) // longer frames there are none
	return cfg, nil
}

func (s *Service) portNames() (names []string) {
	for _, p := range s.ports.Ports {
		names = append(names, p.Name)
	}
	return names
}

// follow taps the router until the limit is reached, ctx ends or the router stops. It
// calls write with each record, and flush when it has to wait for more.
func (s *Service) follow(ctx context.Context, cfg dataplane.TapConfig, until limit, write func(*dataplane.Record) error, flush func() error) (*dataplane.Tap, error) {
	if n := s.tapping.Add(1); n > maxTaps {
		s.tapping.Add(-1)
		return nil, errTooMany
	}
	defer s.tapping.Add(-1)
	if until.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, until.duration)
		defer cancel()
	}
	tap := s.router.Tap(cfg)
	defer s.router.Untap(tap)
	var err error
	seen, ending := 0, false
	enough := func() bool { return err != nil || until.count > 0 && seen == until.count }
	next := func(r *dataplane.Record) bool {
		err = write(r)
		seen++
		return !enough()
	}
	for {
		n := tap.Read(next)
		if err == nil && (n == 0 || ending || enough()) {
			err = flush()
		}
		if ending || enough() {
			return tap, err
		}
		if n > 0 && ctx.Err() == nil {
			continue
		}
		select {
		case <-time.After(tapInterval):
		case <-ctx.Done():
			ending = true
		case <-s.ending:
			ending = true
		}
		if ending {
			s.router.Untap(tap)
		}
	}
}
