package service

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/metrics"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/dataplane"
)

// A reload makes the running router that of another configuration: as a whole, or not at
// all. Each part of the router prepares what changes of it, which may fail and changes
// nothing that a packet meets; when all have, each commits, which cannot fail.
//
//	read, check ─► differ ─► all of it without a restart? ─► prepare each part ─► commit each part
//	  invalid     unchanged          refused                  failed: abandon         applied

// part is a part of the router that is prepared for a reload: one of the two follows.
type part struct{ commit, abandon func() }

// Reload reads the configuration again, by load, and takes over what has changed in it;
// with dry it only tells. It is for one goroutine, in the network namespace of the ports.
func (s *Service) Reload(load func() (*config.Config, error), dry bool) *status.Reload {
	r := &status.Reload{DryRun: dry, Changes: []config.Change{}}
	if cfg, err := load(); err != nil {
		r.Result, r.Error = status.ReloadInvalid, err.Error()
		faults, _ := errors.AsType[config.Errors](err)
		for _, f := range faults {
			r.Faults = append(r.Faults, status.Fault{File: f.File, Line: f.Line, Column: f.Column, Message: f.Msg, Mend: f.Mend})
		}
	} else {
		s.reload(cfg, r)
		cfg.IPsec.Zero()
	}
	if !dry {
		s.account(r)
	}
	return r
}

// account counts a reload, and logs it.
func (s *Service) account(r *status.Reload) {
	s.mu.Lock()
	s.config.Tried = time.Now()
	s.config.Reloads[r.Result]++
	if r.Result == status.ReloadApplied {
		s.config.Loaded = s.config.Tried
	}
	s.mu.Unlock()
	const most = 20 // of changes in the log; `reload --dry-run` tells all
	for i, c := range r.Changes {
		if i == most {
			s.log.Info("configuration differs", "and", fmt.Sprintf("%d changes more", len(r.Changes)-most))
			break
		}
		s.log.Info("configuration differs", "change", c.String())
	}
	switch r.Result {
	case status.ReloadApplied, status.ReloadUnchanged:
		s.log.Info("the configuration was reloaded", "result", r.Summary())
	default:
		s.log.Error("the configuration stays as it was", "because", r.Summary())
	}
}

// reload is Reload of a configuration that was read and checked.
func (s *Service) reload(cfg *config.Config, r *status.Reload) {
	r.Changes = append(r.Changes, config.Diff(s.cfg, cfg)...)
	for _, c := range r.Changes {
		if s.takesRestart(c, cfg) {
			r.Restart = append(r.Restart, c.Key)
		}
	}
	r.Restart = slices.Compact(r.Restart) // policies share a key
	switch {
	case len(r.Restart) > 0:
		r.Result = status.ReloadRefused
	case len(r.Changes) == 0:
		r.Result = status.ReloadUnchanged
	case r.DryRun:
		r.Result = status.ReloadApplied
	default:
		if err := s.apply(cfg, r.Changes); err != nil {
			r.Result, r.Error = status.ReloadFailed, err.Error()
			return
		}
		r.Result = status.ReloadApplied
	}
}

// takesRestart tells whether a change cannot be made while packets flow.
func (s *Service) takesRestart(c config.Change, cfg *config.Config) bool {
	switch {
	case isIPsec(c): // engines know a gateway from their start on
		return s.ipsec == nil || s.ipsec.store == nil
	case strings.HasPrefix(c.Key, "ports."): // engines and workers are made for them
		name := strings.TrimPrefix(c.Key, "ports.")
		return c.Kind != config.Changed || cfg.Ports[portOf(cfg, name)].Mode != s.cfg.Ports[portOf(s.cfg, name)].Mode
	case c.Key == "batch.max_packets": // memory was made for so many
		return cfg.Batch.MaxPackets > s.room
	case c.Key == "busy_poll": // the kernel polls by it, too
		return slices.ContainsFunc(s.ports.Ports, func(p *afxdp.Port) bool { return p.Mode == afxdp.ZeroCopy })
	}
	return c.Key != "batch.max_delay" && c.Key != "metrics.listen" && !strings.HasPrefix(c.Key, "icmp.")
}

// portOf returns the place of an interface among the ports, -1 if it is none.
func portOf(cfg *config.Config, name string) int {
	return slices.IndexFunc(cfg.Ports, func(p config.Port) bool { return p.Interface == name })
}

// isIPsec tells whether a change is one of associations and policies.
func isIPsec(c config.Change) bool {
	return strings.HasPrefix(c.Key, "ipsec.sas.") || c.Key == "ipsec.policies"
}

// apply makes all changes or, on an error, none.
func (s *Service) apply(cfg *config.Config, changes []config.Change) error {
	slices.SortFunc(cfg.Ports, func(a, b config.Port) int { return portOf(s.cfg, a.Interface) - portOf(s.cfg, b.Interface) })
	var prepared []part
	for _, prepare := range []func(*config.Config, []config.Change) (part, error){
		s.prepareMetrics, s.prepareSettings, s.prepareSources, s.prepareIPsec,
	} {
		p, err := prepare(cfg, changes)
		if err != nil {
			for _, p := range slices.Backward(prepared) {
				p.abandon()
			}
			return err
		}
		prepared = append(prepared, p)
	}
	for _, p := range slices.Backward(prepared) { // metrics last: the old ones may have a scrape to end
		p.commit()
	}
	s.cfg = cfg
	return nil
}

// nothing is a part of which nothing changes.
var nothing = part{commit: func() {}, abandon: func() {}}

// prepareMetrics serves metrics at their new address beside the old one.
func (s *Service) prepareMetrics(cfg *config.Config, _ []config.Change) (part, error) {
	if cfg.Metrics == s.cfg.Metrics {
		return nothing, nil
	}
	var now *metrics.Server
	if cfg.Metrics.Listen != "" {
		serve := metrics.Serve
		if s.metrics != nil {
			serve = s.metrics.ServeBeside
		}
		var err error
		if now, err = serve(cfg.Metrics.Listen, s.scrape); err != nil {
			return part{}, err
		}
	}
	end := func(m *metrics.Server) {
		if m == nil {
			return
		}
		if err := m.Close(); err != nil {
			s.log.Error("stop serving metrics", "error", err)
		}
	}
	return part{
		commit:  func() { s.metrics, now = now, s.metrics; end(now) },
		abandon: func() { end(now) },
	}, nil
}

// prepareSettings is for what workers read at every turn.
func (s *Service) prepareSettings(cfg *config.Config, _ []config.Change) (part, error) {
	if cfg.Batch == s.cfg.Batch && cfg.BusyPoll == s.cfg.BusyPoll && cfg.ICMP == s.cfg.ICMP {
		return nothing, nil
	}
	return part{abandon: func() {}, commit: func() {
		if err := s.router.Set(dataplane.Settings{
			MaxPackets: cfg.Batch.MaxPackets, MaxDelay: cfg.Batch.MaxDelay, Spin: cfg.BusyPoll, Limits: errorLimits(cfg.ICMP),
		}); err != nil {
			s.log.Error("a checked configuration does not fit the router", "error", err) // takesRestart has seen to it
		}
		s.mu.Lock()
		s.engine.MaxPackets, s.engine.MaxDelay = cfg.Batch.MaxPackets, cfg.Batch.MaxDelay
		s.mu.Unlock()
	}}, nil
}

// prepareIPsec makes new associations and policies, which nothing uses yet.
func (s *Service) prepareIPsec(cfg *config.Config, changes []config.Change) (part, error) {
	if !slices.ContainsFunc(changes, isIPsec) {
		return nothing, nil
	}
	s.ipsec.keeping.Lock()
	defer s.ipsec.keeping.Unlock()
	next, err := s.ipsec.prepare(&cfg.IPsec)
	if err != nil {
		return part{}, err
	}
	return part{
		commit: func() {
			s.ipsec.keeping.Lock()
			next.commit()
			s.ipsec.keeping.Unlock()
			s.fib.Retry() // packets may wait for an association
		},
		abandon: func() {
			s.ipsec.keeping.Lock()
			defer s.ipsec.keeping.Unlock()
			if err := next.abandon(); err != nil {
				s.log.Error("give back sequence numbers", "error", err)
			}
		},
	}, nil
}

// ReloadRequest is a client's of the control socket.
type ReloadRequest struct {
	DryRun bool
	answer chan *status.Reload
}

// Answer ends a request.
func (r ReloadRequest) Answer(a *status.Reload) { r.answer <- a }

// ReloadRequests are what clients ask for. Each is to be answered.
func (s *Service) ReloadRequests() <-chan ReloadRequest { return s.reloads }

// reloadFor answers POST /reload?dry_run=true.
func (s *Service) reloadFor(r *http.Request) (any, error) {
	q := ReloadRequest{DryRun: r.URL.Query().Get("dry_run") == "true", answer: make(chan *status.Reload, 1)}
	select {
	case s.reloads <- q:
		return <-q.answer, nil // though the router stops right behind it: it was applied, or not
	case <-s.ending:
		return nil, errors.New("reload: the router is stopping")
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}
