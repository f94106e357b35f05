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

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/fib"
)

var checkNames = [...]config.ReversePath{
	fib.AnySource: config.ReversePathOff, fib.LooseSource: config.ReversePathLoose, fib.StrictSource: config.ReversePathStrict,
}

// portSources returns the reverse path checks of a port, by its configuration or rp_filter.
func portSources(p config.Port) (fib.Sources, error) {
	switch p.ReversePath {
	case config.ReversePathStrict:
		return fib.Sources{IPv4: fib.StrictSource, IPv6: fib.StrictSource}, nil
	case config.ReversePathLoose:
		return fib.Sources{IPv4: fib.LooseSource, IPv6: fib.LooseSource}, nil
	case config.ReversePathAuto:
		filter, err := rpFilter(p.Interface)
		if err != nil {
			return fib.Sources{}, fmt.Errorf("read rp_filter of port %s: %w; set reverse_path of the port to off, loose or strict", p.Interface, err)
		}
		return fib.Sources{IPv4: filter}, nil
	}
	return fib.Sources{}, nil
}

// rpFilter returns Linux's reverse path check of an interface: the larger of its rp_filter and
// that of "all"; loose is strict on an interface without an IPv4 address. Without /proc there
// is no check.
func rpFilter(name string) (fib.ReversePath, error) {
	var values []int
	for _, scope := range []string{"all", name} {
		text, err := os.ReadFile(filepath.Join("/proc/sys/net/ipv4/conf", scope, "rp_filter"))
		if errors.Is(err, fs.ErrNotExist) && scope == "all" {
			return fib.AnySource, nil
		}
		if err != nil {
			return 0, err
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return 0, fmt.Errorf("rp_filter of %s: %w", scope, err)
		}
		values = append(values, n)
	}
	check := parseRPFilter(slices.Max(values))
	if check == fib.LooseSource && !hasIPv4(name) { // __fib_validate_source ignores routes by other interfaces then
		check = fib.StrictSource
	}
	return check, nil
}

// hasIPv4 reports whether an interface has an IPv4 address, true if unknown.
func hasIPv4(name string) bool {
	l, err := net.InterfaceByName(name)
	if err != nil {
		return true
	}
	all, err := l.Addrs()
	return err != nil || slices.ContainsFunc(all, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.To4() != nil
	})
}

// parseRPFilter interprets a value of rp_filter. Linux accepts any number, and treats all but
// 0 and 1 as 2.
func parseRPFilter(value int) fib.ReversePath {
	switch value {
	case 0:
		return fib.AnySource
	case 1:
		return fib.StrictSource
	}
	return fib.LooseSource
}
