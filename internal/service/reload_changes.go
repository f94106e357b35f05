package service

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/web"
	"github.com/warproute/warproute/dataplane"
)

// change is the prepared change of a part of the router. One of the two functions is called.
type change struct{ commit, abort func() }

var noChange = change{commit: func() {}, abort: func() {}}

// prepareLog changes the level of the log.
func (s *Service) prepareLog(cfg *config.Config, _ []config.Change) (change, error) {
	if cfg.Log.Level == s.cfg.Log.Level {
		return noChange, nil
	}
	return change{commit: func() { s.level.Set(cfg.Log.Level.Slog()) }, abort: func() {}}, nil
}

// maxScrapers is the most connections for metrics at a time.
const maxScrapers = 64

// endpoint serves HTTP at an address of the configuration.
type endpoint struct {
	of     func(*config.Config) web.Endpoint // Listen is "" for none
	server *web.Server                       // nil: not configured
}

// metricsEndpoint returns the endpoint of Prometheus metrics.
func metricsEndpoint(h http.Handler, log *slog.Logger) endpoint {
	return endpoint{of: func(c *config.Config) web.Endpoint {
		return web.Endpoint{Key: "metrics.listen", Listen: c.Metrics.Listen, WebConfig: c.Metrics.WebConfig, Connections: maxScrapers, Log: log, Handler: h}
	}}
}

// pageEndpoint returns the endpoint of the status page.
func pageEndpoint(h http.Handler, log *slog.Logger) endpoint {
	return endpoint{of: func(c *config.Config) web.Endpoint {
		return web.Endpoint{Key: "status.listen", Listen: c.Status.Listen, Log: log, Handler: h}
	}}
}

// start serves at the address of a configuration, beside an earlier server if that is not nil.
func (e *endpoint) start(cfg *config.Config, earlier *web.Server) (err error) {
	e.server = nil
	switch next := e.of(cfg); {
	case next.Listen == "":
	case earlier == nil:
		e.server, err = web.Serve(next)
	default:
		e.server, err = earlier.ServeBeside(next)
	}
	return err
}

func (e *endpoint) close() error {
	if e.server == nil {
		return nil
	}
	return e.server.Close()
}

// prepareEndpoints serves at new addresses beside the old ones.
func (s *Service) prepareEndpoints(cfg *config.Config, _ []config.Change) (change, error) {
	var all []change
	abort := func() {
		for _, c := range all {
			c.abort()
		}
	}
	for _, e := range []*endpoint{&s.metrics, &s.page} {
		before, after := e.of(s.cfg), e.of(cfg)
		if before.Listen == after.Listen && before.WebConfig == after.WebConfig {
			continue
		}
		next := *e
		if err := next.start(cfg, e.server); err != nil {
			abort()
			return change{}, err
		}
		closeNext := func() {
			if err := next.close(); err != nil {
				s.log.Error("close the server at an earlier address", "err", fmt.Errorf("%s: %w", after.Key, err))
			}
		}
		all = append(all, change{commit: func() { *e, next = next, *e; closeNext() }, abort: closeNext})
	}
	return change{abort: abort, commit: func() {
		for _, c := range all {
			c.commit()
		}
	}}, nil
}

// prepareSettings changes the settings that workers read in every iteration.
func (s *Service) prepareSettings(cfg *config.Config, _ []config.Change) (change, error) {
	if cfg.Batch == s.cfg.Batch && cfg.BusyPoll == s.cfg.BusyPoll && cfg.ICMP == s.cfg.ICMP {
		return noChange, nil
	}
	return change{abort: func() {}, commit: func() {
		if err := s.router.Set(dataplane.Settings{
			MaxPackets: s.maxPackets(cfg), MaxBytes: s.maxBytes(cfg), MaxInFlight: cfg.Batch.MaxInFlight, MaxDelay: cfg.Batch.MaxDelay, Spin: cfg.BusyPoll, Limits: errorLimits(cfg.ICMP),
		}); err != nil {
			s.log.Error("settings not applied", "err", err) // impossible after needsRestart
		}
		s.engine.mu.Lock()
		s.engine.state.MaxPackets, s.engine.state.MaxDelay = s.maxPackets(cfg), cfg.Batch.MaxDelay
		s.engine.mu.Unlock()
	}}, nil
}

// prepareSources changes the reverse path checks.
func (s *Service) prepareSources(cfg *config.Config, _ []config.Change) (change, error) {
	ports := s.ports.reconfigured(cfg)
	next, err := s.rpf.changed(ports)
	if err != nil {
		return change{}, err
	}
	return change{abort: func() {}, commit: func() { s.rpf.apply(s.log, ports, next) }}, nil
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
