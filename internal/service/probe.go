package service

import (
	"fmt"
	"strings"
	"time"
)

// Probe waits until every worker and every mirror has begun another turn of its loop. The
// error names those that have not within the limit.
func (s *Service) Probe(limit time.Duration) error {
	waiting := map[string]chan struct{}{}
	for name, turn := range s.mirrors() {
		done := make(chan struct{})
		waiting[name] = done
		go func() { turn(); close(done) }()
	}
	s.router.Ask()
	deadline := time.Now().Add(limit)
	for {
		var silent []string
		for _, n := range s.router.Silent() {
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

// mirrors returns, for each mirror, what waits until its goroutine has begun another turn.
func (s *Service) mirrors() map[string]func() {
	all := map[string]func(){"mirror of routes": s.mirror.Turn}
	if s.xfrm != nil {
		all["mirror of IPsec"] = func() { s.xfrm.Do(func() {}) }
	}
	return all
}
