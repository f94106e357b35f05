package service

import (
	"net/http"
	"slices"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/metrics"
	"github.com/warproute/warproute/dataplane"
)

// change is the prepared change of a part of the router. One of the two functions is called.
type change struct{ commit, abort func() }

var noChange = change{commit: func() {}, abort: func() {}}

// exporter serves metrics.
type exporter struct {
	server  *metrics.Server // nil: not configured
	handler http.Handler
}

func (e *exporter) close() error {
	if e.server == nil {
		return nil
	}
	return e.server.Close()
}

// prepareMetrics serves metrics at the new address beside the old one.
func (s *Service) prepareMetrics(cfg *config.Config, _ []config.Change) (change, error) {
	if cfg.Metrics == s.cfg.Metrics {
		return noChange, nil
	}
	next := exporter{handler: s.metrics.handler}
	if cfg.Metrics.Listen != "" {
		serve := metrics.Serve
		if s.metrics.server != nil {
			serve = s.metrics.server.ServeBeside
		}
		var err error
		if next.server, err = serve(cfg.Metrics.Listen, next.handler); err != nil {
			return change{}, err
		}
	}
	closeNext := func() {
		if err := next.close(); err != nil {
			s.log.Error("stop serving metrics", "err", err)
		}
	}
	return change{
		commit: func() { s.metrics, next = next, s.metrics; closeNext() },
		abort:  closeNext,
	}, nil
}

// prepareSettings changes the settings that workers read in every iteration.
func (s *Service) prepareSettings(cfg *config.Config, _ []config.Change) (change, error) {
	if cfg.Batch == s.cfg.Batch && cfg.BusyPoll == s.cfg.BusyPoll && cfg.ICMP == s.cfg.ICMP {
		return noChange, nil
	}
	return change{abort: func() {}, commit: func() {
		if err := s.router.Set(dataplane.Settings{
			MaxPackets: cfg.Batch.MaxPackets, MaxBytes: s.maxBytes(cfg), MaxDelay: cfg.Batch.MaxDelay, Spin: cfg.BusyPoll, Limits: errorLimits(cfg.ICMP),
		}); err != nil {
			s.log.Error("settings not applied", "err", err) // impossible after needsRestart
		}
		s.engine.mu.Lock()
		s.engine.state.MaxPackets, s.engine.state.MaxDelay = cfg.Batch.MaxPackets, cfg.Batch.MaxDelay
		s.engine.mu.Unlock()
	}}, nil
}

// prepareSources changes the reverse path checks. Ports are in the order of their numbers.
func (s *Service) prepareSources(cfg *config.Config, _ []config.Change) (change, error) {
	next, err := s.rpf.changed(cfg.Ports)
	if err != nil {
		return change{}, err
	}
	return change{abort: func() {}, commit: func() { s.rpf.apply(s.log, cfg.Ports, next) }}, nil
}

// prepareIPsec prepares new SAs and policies.
func (s *Service) prepareIPsec(cfg *config.Config, changes []config.Change) (change, error) {
	if !slices.ContainsFunc(changes, isIPsec) {
		return noChange, nil
	}
	s.ipsec.stateMu.Lock()
	defer s.ipsec.stateMu.Unlock()
	next, err := s.ipsec.prepare(&cfg.IPsec)
	if err != nil {
		return change{}, err
	}
	return change{
		commit: func() {
			s.ipsec.stateMu.Lock()
			next.commit()
			s.ipsec.stateMu.Unlock()
			s.fib.MarkChanged() // pending packets may wait for an SA
		},
		abort: func() {
			s.ipsec.stateMu.Lock()
			defer s.ipsec.stateMu.Unlock()
			if err := next.abort(); err != nil {
				s.log.Error("release sequence numbers", "err", err)
			}
		},
	}, nil
}
