package service

import (
	"fmt"
	"strings"
	"time"
)

// Probe waits until every worker and every mirror has begun another iteration of its loop. The
// error names those that have not within the limit.
func (s *Service) Probe(limit time.Duration) error {
	if s.handing.Load() {
		return nil
	}
	waiting := map[string]chan struct{}{}
	for name, wait := range s.mirrors() {
		done := make(chan struct{})
		waiting[name] = done
		go func() { wait(); close(done) }()
	}
	s.router.StartProbe()
	deadline := time.Now().Add(limit)
	for {
		var silent []string
		for _, n := range s.router.Stalled() {
			silent = append(silent, fmt.Sprintf("worker %d", n))
		}
		for name, done := range waiting {
			select {
			case <-done:
			default:
				silent = append(silent, name)
			}
		}
		switch {
		case len(silent) == 0:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("no progress within %v: %s", limit, strings.Join(silent, ", "))
		}
		time.Sleep(limit / 100)
	}
}

// mirrors returns, by mirror, a function that waits for another iteration of its goroutine.
func (s *Service) mirrors() map[string]func() {
	all := map[string]func(){"mirror of routes": s.mirror.Barrier}
	if s.xfrm != nil {
		all["mirror of IPsec"] = func() { s.xfrm.Do(func() {}) }
	}
	return all
}
