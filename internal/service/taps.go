package service

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/capture"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/packet/filter"
)

const (
	maxTaps     = 16                   // captures and traces at a time
	tapInterval = 2 * time.Millisecond // between reads of an empty tap
)

// limit ends a capture or a trace.
type limit struct {
	count    int // 0: unlimited
	duration time.Duration
}

func parseLimit(q url.Values) (l limit, err error) {
	if text := q.Get("count"); text != "" {
		if l.count, err = strconv.Atoi(text); err != nil || l.count < 0 {
			return l, fmt.Errorf("count %q is not a number of packets", text)
		}
	}
	if text := q.Get("duration"); text != "" {
		if l.duration, err = time.ParseDuration(text); err != nil || l.duration < 0 {
			return l, fmt.Errorf("duration %q is not a duration like 10s", text)
		}
	}
	return l, nil
}

var errTooMany = fmt.Errorf("%d captures and traces are running already: end one of them first", maxTaps)

// tapConfig parses the parameters that captures and traces share.
func (s *Service) tapConfig(q url.Values) (cfg dataplane.CaptureConfig, err error) {
	if s.taps.Load() >= maxTaps { // a started answer cannot report it
		return cfg, errTooMany
	}
	if cfg.Filter, err = filter.Parse(q.Get("filter")); err != nil {
		return cfg, err
	}
	for _, name := range q["port"] {
		if cfg.Ports == nil {
			cfg.Ports = make([]bool, batch.MaxPorts)
		}
		if bond := s.ports.memberOf(name); bond != "" {
			return cfg, fmt.Errorf("%q is a member of bond %s, whose packets have the bond as port: capture or trace %s", name, bond, bond)
		}
		i := s.ports.numberOf(name)
		if i < 0 {
			return cfg, fmt.Errorf("%q is not a port of this router; its ports are %s", name, strings.Join(s.ports.allNames(), ", "))
		}
		cfg.Ports[i] = true
	}
	for _, name := range q["reason"] {
		reason, ok := batch.ParseReason(name)
		if !ok {
			return cfg, fmt.Errorf("%q is not a drop reason; `warproute capture --help` lists them", name)
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
	cfg.Snap = min(cfg.Snap, s.memory.maxMTU+packet.EthernetLen) // no frame is longer
	return cfg, nil
}

// follow taps the router until the limit, the end of ctx or the stop of the router. It calls
// write with each record, and flush before it waits for more.
func (s *Service) follow(ctx context.Context, cfg dataplane.CaptureConfig, until limit, write func(*dataplane.Record) error, flush func() error) (*dataplane.Capture, error) {
	if n := s.taps.Add(1); n > maxTaps {
		s.taps.Add(-1)
		return nil, errTooMany
	}
	defer s.taps.Add(-1)
	if until.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, until.duration)
		defer cancel()
	}
	tap := s.router.StartCapture(cfg)
	defer s.router.StopCapture(tap)
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
			s.router.StopCapture(tap)
		}
	}
}
