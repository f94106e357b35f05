package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/dataplane"
)

// setAllSources has the router, which does not run yet, take packets from the sources that
// its ports are to take them from.
func (s *Service) setAllSources() ([]dataplane.Sources, error) {
	all := make([]dataplane.Sources, len(s.cfg.Ports))
	for i, p := range s.cfg.Ports {
		var err error
		if all[i], err = sourcesOf(p); err != nil {
			return nil, fmt.Errorf("read from which sources port %s takes packets: %w; set reverse_path of the port to off, loose or strict", p.Interface, err)
		}
		if all[i] != (dataplane.Sources{}) {
			s.setSources(i, p.Interface, all[i])
		}
	}
	return all, nil
}

const sourcesEvery = time.Second

// followSources looks at rp_filter as long as the router runs: Linux tells nobody that reads
// routes of it. Where it cannot be read, as of a port that is gone, it stays what it was.
func (s *Service) followSources(ports []config.Port, was []dataplane.Sources) {
	for tick := time.NewTicker(sourcesEvery); ; {
		select {
		case <-s.ending:
			tick.Stop()
			return
		case <-tick.C:
		}
		for i, p := range ports {
			if is, err := sourcesOf(p); err == nil && is != was[i] {
				was[i] = is
				s.setSources(i, p.Interface, is)
			}
		}
	}
}

func (s *Service) setSources(port int, name string, is dataplane.Sources) {
	s.router.SetSources(port, is)
	s.log.Info("sources that no route leads back to are refused", "port", name, "ipv4", sourceNames[is.IPv4], "ipv6", sourceNames[is.IPv6])
}

var sourceNames = [...]config.ReversePath{
	dataplane.AnySource: config.ReversePathOff, dataplane.LooseSource: config.ReversePathLoose, dataplane.StrictSource: config.ReversePathStrict,
}

// sourcesOf returns from which sources a port takes packets.
func sourcesOf(p config.Port) (dataplane.Sources, error) {
	switch p.ReversePath {
	case config.ReversePathStrict:
		return dataplane.Sources{IPv4: dataplane.StrictSource, IPv6: dataplane.StrictSource}, nil
	case config.ReversePathLoose:
		return dataplane.Sources{IPv4: dataplane.LooseSource, IPv6: dataplane.LooseSource}, nil
	case config.ReversePathAuto:
		filter, err := rpFilter(p.Interface)
		return dataplane.Sources{IPv4: filter}, err
	}
	return dataplane.Sources{}, nil
}

// rpFilter returns what Linux does with IPv4 packets of an interface: the larger of its own
// rp_filter and that of all counts. Without /proc there is no such setting.
func rpFilter(name string) (dataplane.ReversePath, error) {
	most := 0
	for _, of := range []string{"all", name} {
		text, err := os.ReadFile(filepath.Join("/proc/sys/net/ipv4/conf", of, "rp_filter"))
		if errors.Is(err, fs.ErrNotExist) && of == "all" {
			return dataplane.AnySource, nil
		}
		if err != nil {
			return 0, err
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return 0, fmt.Errorf("rp_filter of %s: %w", of, err)
		}
		most = max(most, n)
	}
	switch most {
	case 1:
		return dataplane.StrictSource, nil
	case 2:
		return dataplane.LooseSource, nil
	}
	return dataplane.AnySource, nil
}
