package service

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/fib"
)

// sources are from which sources the ports take packets, by their numbers.
type sources struct {
	mu    sync.Mutex    // held while the base is told, so that it ends up with what is here
	ports []config.Port // what was asked for
	now   []fib.Sources
	write func(port int, s fib.Sources) // to the base
	name  func(port int) string         // of the interface that it is now, "" for none
}

// setAllSources has the router, which does not run yet, take packets from the sources that
// its ports are to take them from.
func (s *Service) setAllSources() error {
	s.sources.ports, s.sources.now = slices.Clone(s.cfg.Ports), make([]fib.Sources, len(s.cfg.Ports))
	s.sources.write, s.sources.name = s.mirror.SetSources, s.mirror.PortName
	for i, p := range s.cfg.Ports {
		is, err := sourcesOf(p)
		if err != nil {
			return err
		}
		s.sources.set(s, i, is)
	}
	return nil
}

// set has a port take packets from other sources, if they are others.
func (a *sources) set(s *Service, port int, is fib.Sources) {
	if is == a.now[port] {
		return
	}
	a.now[port] = is
	a.write(port, is)
	s.log.Info("sources that no route leads back to are refused", "port", a.ports[port].Interface, "ipv4", sourceNames[is.IPv4], "ipv6", sourceNames[is.IPv6])
}

const sourcesEvery = time.Second

// followSources looks at rp_filter as long as the router runs: Linux tells nobody that reads
// routes of it. Where it cannot be read, as of a port that is gone, it stays what it was.
func (s *Service) followSources() {
	for tick := time.NewTicker(sourcesEvery); ; {
		select {
		case <-s.ending:
			tick.Stop()
			return
		case <-tick.C:
		}
		s.sources.mu.Lock()
		for i, p := range s.sources.ports {
			p.Interface = s.sources.name(i) // renamed, its settings go by that
			if is, err := sourcesOf(p); err == nil {
				s.sources.set(s, i, is)
			}
		}
		s.sources.mu.Unlock()
	}
}

// prepareSources is for ports that are to take packets from other sources. Ports are in the
// order of their numbers.
func (s *Service) prepareSources(cfg *config.Config, _ []config.Change) (part, error) {
	next := map[int]fib.Sources{}
	for i, p := range cfg.Ports {
		if p.ReversePath == s.cfg.Ports[i].ReversePath {
			continue
		}
		if name := s.sources.name(i); name != "" { // renamed, its settings go by that
			p.Interface = name
		}
		var err error
		if next[i], err = sourcesOf(p); err != nil {
			return part{}, err
		}
	}
	return part{abandon: func() {}, commit: func() {
		s.sources.mu.Lock()
		defer s.sources.mu.Unlock()
		for i, is := range next {
			s.sources.ports[i] = cfg.Ports[i]
			s.sources.set(s, i, is)
		}
	}}, nil
}

var sourceNames = [...]config.ReversePath{
	fib.AnySource: config.ReversePathOff, fib.LooseSource: config.ReversePathLoose, fib.StrictSource: config.ReversePathStrict,
}

// sourcesOf returns from which sources a port takes packets.
func sourcesOf(p config.Port) (fib.Sources, error) {
	switch p.ReversePath {
	case config.ReversePathStrict:
		return fib.Sources{IPv4: fib.StrictSource, IPv6: fib.StrictSource}, nil
	case config.ReversePathLoose:
		return fib.Sources{IPv4: fib.LooseSource, IPv6: fib.LooseSource}, nil
	case config.ReversePathAuto:
		filter, err := rpFilter(p.Interface)
		if err != nil {
			return fib.Sources{}, fmt.Errorf("read from which sources port %s takes packets: %w; set reverse_path of the port to off, loose or strict", p.Interface, err)
		}
		return fib.Sources{IPv4: filter}, nil
	}
	return fib.Sources{}, nil
}

// rpFilter returns what Linux does with IPv4 packets of an interface: the larger of its own
// rp_filter and that of all counts, and loose is strict where the interface has no IPv4
// address. Without /proc there is no such setting.
func rpFilter(name string) (fib.ReversePath, error) {
	var values []int
	for _, of := range []string{"all", name} {
		text, err := os.ReadFile(filepath.Join("/proc/sys/net/ipv4/conf", of, "rp_filter"))
		if errors.Is(err, fs.ErrNotExist) && of == "all" {
			return fib.AnySource, nil
		}
		if err != nil {
			return 0, err
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return 0, fmt.Errorf("rp_filter of %s: %w", of, err)
		}
		values = append(values, n)
	}
	is := meaning(slices.Max(values))
	if is == fib.LooseSource && !hasIPv4(name) { // routes by other interfaces do not count then (__fib_validate_source)
		is = fib.StrictSource
	}
	return is, nil
}

// hasIPv4 tells whether an interface has an IPv4 address, as it has where that is not known.
func hasIPv4(name string) bool {
	l, err := net.InterfaceByName(name)
	if err != nil {
		return true
	}
	all, err := l.Addrs()
	return err != nil || slices.ContainsFunc(all, func(a net.Addr) bool {
		of, is := a.(*net.IPNet)
		return is && of.IP.To4() != nil
	})
}

// meaning is what Linux makes of a value of rp_filter. It takes any number, and all but two
// of them as 2.
func meaning(rpFilter int) fib.ReversePath {
	switch rpFilter {
	case 0:
		return fib.AnySource
	case 1:
		return fib.StrictSource
	}
	return fib.LooseSource
}
