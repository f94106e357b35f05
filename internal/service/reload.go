package service

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/status"
)

// A reload applies another configuration to the running router: all of it or nothing. Each part
// of the router prepares its changes, which can fail and does not affect packets. When all are
// prepared, each part commits, which cannot fail.
//
//	read, check ─► differ ─► all of it without a restart? ─► prepare each part ─► commit each part
//	  invalid     unchanged          refused                  failed: abort           applied

// reloads are the requests for reloads and their counts.
type reloads struct {
	requests chan ReloadRequest
	mu       sync.Mutex
	state    status.ConfigState
}

func newReloads() reloads {
	return reloads{
		requests: make(chan ReloadRequest),
		state:    status.ConfigState{Loaded: time.Now(), Reloads: map[status.ReloadResult]uint64{}},
	}
}

// Reload loads the configuration again and applies the differences; with dry it only reports
// them. It is for one goroutine, in the network namespace of the ports.
func (s *Service) Reload(load func() (*config.Config, error), dry bool) *status.Reload {
	r := &status.Reload{DryRun: dry, Changes: []config.Change{}}
	if cfg, err := load(); err != nil {
		r.Result, r.Error = status.ReloadInvalid, err.Error()
		faults, _ := errors.AsType[config.Errors](err)
		for _, f := range faults {
			r.Faults = append(r.Faults, status.Fault{File: f.File, Line: f.Line, Column: f.Column, Message: f.Msg, Hint: f.Hint})
		}
	} else {
		s.reload(cfg, r)
		cfg.IPsec.Zero()
	}
	if !dry {
		s.reloads.count(r.Result)
		s.logReload(r)
	}
	return r
}

func (r *reloads) count(result status.ReloadResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Tried = time.Now()
	r.state.Reloads[result]++
	if result == status.ReloadApplied {
		r.state.Loaded = r.state.Tried
	}
}

func (s *Service) logReload(r *status.Reload) {
	const most = 20 // changes in the log; `reload --dry-run` lists all
	for i, c := range r.Changes {
		if i == most {
			s.log.Info("configuration changes", "change", fmt.Sprintf("%d more", len(r.Changes)-most))
			break
		}
		s.log.Info("configuration changes", "change", c.String())
	}
	switch r.Result {
	case status.ReloadApplied, status.ReloadUnchanged:
		s.log.Info("configuration reloaded", "reason", r.Summary())
	default:
		s.log.Error("configuration not reloaded, the old one stays active", "reason", r.Summary())
	}
}

// reload compares and applies a checked configuration.
func (s *Service) reload(cfg *config.Config, r *status.Reload) {
	cfg = s.withRunningMembers(cfg)
	r.Changes = append(r.Changes, config.Diff(s.cfg, cfg)...)
	for _, c := range r.Changes {
		if s.needsRestart(c, cfg) {
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

// needsRestart reports whether a change cannot be applied to a running router.
func (s *Service) needsRestart(c config.Change, cfg *config.Config) bool {
	switch {
	case isIPsec(c): // engines get their gateway when they start
		return s.ipsec == nil || s.ipsec.store == nil
	case strings.HasPrefix(c.Key, "ports."): // open ports keep their mode
		name := strings.TrimPrefix(c.Key, "ports.")
		if c.Kind != config.Changed {
			return s.isBond(name) // members are opened at the start
		}
		return cfg.Ports[portIndex(cfg, name)].Mode != s.cfg.Ports[portIndex(s.cfg, name)].Mode
	case c.Key == "batch.max_packets": // limited by the allocated memory
		return s.maxPackets(cfg) > s.memory.room
	case c.Key == "cores": // NAPI threads stay on theirs
		return cfg.NAPI == config.NAPIThread
	case c.Key == "busy_poll": // a setting of zero-copy sockets, too
		return slices.ContainsFunc(s.ports.all(), func(p *afxdp.Port) bool { return p != nil && p.Mode == afxdp.ZeroCopy })
	}
	return c.Key != "batch.max_delay" && c.Key != "batch.max_bytes" && c.Key != "batch.max_in_flight" && !strings.HasPrefix(c.Key, "metrics.") && c.Key != "status.listen" && c.Key != "log.level" && !strings.HasPrefix(c.Key, "icmp.")
}

// portIndex returns the index of an interface in the ports, of a bond that of a member, -1 if it is no port.
func portIndex(cfg *config.Config, name string) int {
	return slices.IndexFunc(cfg.Ports, func(p config.Port) bool { return p.Interface == name || p.Bond == name })
}

// isIPsec reports whether a change is one of SAs or policies.
func isIPsec(c config.Change) bool {
	return strings.HasPrefix(c.Key, "ipsec.sas.") || c.Key == "ipsec.policies"
}

// apply makes all changes or, on an error, none.
func (s *Service) apply(cfg *config.Config, changes []config.Change) error {
	s.hotplug.mu.Lock()
	defer s.hotplug.mu.Unlock()
	var prepared []change
	for _, prepare := range []func(*config.Config, []config.Change) (change, error){
		s.prepareLog, s.prepareEndpoints, s.prepareSettings, s.prepareSources, s.prepareIPsec, s.preparePorts, s.prepareCores,
	} {
		c, err := prepare(cfg, changes)
		if err != nil {
			for _, c := range slices.Backward(prepared) {
				c.abort()
			}
			return err
		}
		prepared = append(prepared, c)
	}
	for _, c := range slices.Backward(prepared) { // metrics last: the old server may have a scrape to answer
		c.commit()
	}
	s.cfg = cfg
	s.reconcilePorts()
	return nil
}

// ReloadRequest is a request of a client of the control socket.
type ReloadRequest struct {
	DryRun bool
	answer chan *status.Reload
}

// Answer completes a request.
func (r ReloadRequest) Answer(a *status.Reload) { r.answer <- a }

// ReloadRequests returns the channel of requests. Each needs an answer.
func (s *Service) ReloadRequests() <-chan ReloadRequest { return s.reloads.requests }

// handleReload answers POST /reload?dry_run=true.
func (s *Service) handleReload(r *http.Request) (any, error) {
	q := ReloadRequest{DryRun: r.URL.Query().Get("dry_run") == "true", answer: make(chan *status.Reload, 1)}
	select {
	case s.reloads.requests <- q:
		return <-q.answer, nil // even if the router stops right after it
	case <-s.ending:
		return nil, errors.New("reload: the router is stopping")
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}
