package service

import (
	"log/slog"
	"sync"

	"github.com/warproute/warproute/internal/netdev"
)

// linkCounters reads what the interfaces of the router's network namespace dropped.
type linkCounters struct {
	file   *netdev.CounterFile // nil if it could not be opened
	failed sync.Once
}

// openLinkCounters opens the counters. A router without them forwards all the same.
func (s *Service) openLinkCounters() error {
	file, err := netdev.OpenCounters()
	if err != nil {
		s.links.report(s.log, err)
		return nil
	}
	s.links.file = file
	s.closers.push("close the counters of interfaces", file.Close)
	return nil
}

// read returns the counters by the names of the interfaces.
func (l *linkCounters) read(log *slog.Logger) map[string]netdev.Counters {
	if l.file == nil {
		return nil
	}
	all, err := l.file.Read()
	if err != nil {
		l.report(log, err)
	}
	return all
}

// report logs once that there are no counters.
func (l *linkCounters) report(log *slog.Logger, err error) {
	l.failed.Do(func() { log.Warn("frames that drivers drop are not shown", "err", err) })
}
