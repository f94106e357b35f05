package service

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/netdev"
)

var rpfNames = [...]config.ReversePath{
	fib.RPFOff: config.ReversePathOff, fib.RPFLoose: config.ReversePathLoose, fib.RPFStrict: config.ReversePathStrict,
}

// rpfOf returns the reverse path filtering of a port, by its configuration or rp_filter.
func rpfOf(p config.Port) (fib.RPF, error) {
	switch p.ReversePath {
	case config.ReversePathStrict:
		return fib.RPF{IPv4: fib.RPFStrict, IPv6: fib.RPFStrict}, nil
	case config.ReversePathLoose:
		return fib.RPF{IPv4: fib.RPFLoose, IPv6: fib.RPFLoose}, nil
	case config.ReversePathAuto:
		filter, err := rpFilter(p.Interface)
		if err != nil {
			return fib.RPF{}, fmt.Errorf("read rp_filter of port %s: %w; set reverse_path of the port to off, loose or strict", p.Interface, err)
		}
		return fib.RPF{IPv4: filter}, nil
	}
	return fib.RPF{}, nil
}

// rpFilter returns Linux's reverse path check of an interface: the larger of its rp_filter and
// that of "all"; loose is strict on an interface without an IPv4 address. Without /proc there
// is no check.
func rpFilter(name string) (fib.RPFMode, error) {
	var values []int
	for _, scope := range []string{"all", name} {
		text, err := readSetting(filepath.Join("/proc/sys/net/ipv4/conf", scope, "rp_filter"))
		if errors.Is(err, fs.ErrNotExist) && scope == "all" {
			return fib.RPFOff, nil
		}
		if err != nil {
			return 0, err
		}
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return 0, fmt.Errorf("rp_filter of %s: %w", scope, err)
		}
		values = append(values, n)
	}
	check := parseRPFilter(slices.Max(values))
	if check == fib.RPFLoose { // __fib_validate_source ignores routes by other interfaces of one without an address
		if has, err := netdev.HasIPv4(name); err == nil && !has {
			check = fib.RPFStrict
		}
	}
	return check, nil
}

// readSetting reads a short file of /proc/sys. os.ReadFile takes three times as many system calls, for each of thousands of
// interfaces.
func readSetting(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var b [32]byte
	n, err := unix.Read(fd, b[:])
	if err != nil {
		return "", &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return string(b[:n]), nil
}

// parseRPFilter interprets a value of rp_filter. Linux accepts any number, and treats all but
// 0 and 1 as 2.
func parseRPFilter(value int) fib.RPFMode {
	switch value {
	case 0:
		return fib.RPFOff
	case 1:
		return fib.RPFStrict
	}
	return fib.RPFLoose
}
