package service

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/dataplane"
)

// traceRoom is the number of packets per worker that can wait to be explained. Traces miss the
// rest.
const traceRoom = 256

// trace answers /trace?port=&filter=&count=&duration= with one status.Trace per line, until
// the client disconnects.
func (s *Service) trace(r *http.Request) (any, error) {
	q := r.URL.Query()
	cfg, err := s.tapConfig(q)
	if err != nil {
		return nil, err
	}
	cfg.Room, cfg.Points[dataplane.Decided] = traceRoom, true
	until, err := parseLimit(q)
	if err != nil {
		return nil, err
	}
	return &socket.Content{Type: "application/x-ndjson", Write: func(ctx context.Context, w *socket.ContentWriter) error {
		lines := json.NewEncoder(w)
		x := s.explainer()
		write := func(r *dataplane.Record) error { return lines.Encode(x.explain(r)) }
		_, err := s.follow(ctx, cfg, until, write, w.Flush)
		return err
	}}, nil
}

// explainer returns an explainer for the router's current tables.
func (s *Service) explainer() *explainer {
	x := newExplainer(s.fib, s.mirror, s.ports.nameOf, s.withGateway)
	x.engine = func() string { return s.engine.current().Name }
	x.queue = func(r *dataplane.Record) int {
		at := r.Decision.Queue
		for _, p := range s.ports.all() { // the worker's queues are in this order
			if p == nil {
				continue
			}
			queues := p.Queues(r.Worker)
			if at < len(queues) {
				return queues[at].Number()
			}
			at -= len(queues)
		}
		return 0
	}
	return x
}
