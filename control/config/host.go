package config

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/warproute/warproute/internal/ethtool"
	"github.com/warproute/warproute/internal/netdev"
)

// CheckHost checks the values and then reports, as an Errors, what this host
// (the calling process's network namespace) lacks for the configuration. Those in running
// are ports of a router that has the configuration next: it does without them until they
// are back.
func CheckHost(c *Config, running ...Port) error {
	if err := c.Check(); err != nil {
		return err
	}
	have, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("list the host's interfaces: %w", err)
	}
	errs := append(c.missing(have, running), c.checkQueues(running, ethtool.Queues)...)
	errs = append(errs, c.refused(running)...)
	if dir := filepath.Dir(c.Control.Socket); !isDir(dir) {
		errs = append(errs, c.lacking("control.socket", fmt.Sprintf("control.socket: there is no directory %s", dir), "create it, or choose another path"))
	}
	errs = append(errs, c.checkState()...)
	return append(errs, c.checkForwarding("/proc/sys")...).orNil()
}

// checkState checks that sequence numbers can be kept, where there are some. The router
// makes the directory if it is the last of the path.
func (c *Config) checkState() Errors {
	dir := c.IPsec.State
	info, err := os.Stat(dir)
	switch {
	case !slices.ContainsFunc(c.IPsec.SAs, func(a SA) bool { return a.Direction == DirectionOut }):
		return nil
	case err == nil && !info.IsDir():
		return Errors{c.fault("ipsec.state", fmt.Sprintf("ipsec.state: %s is not a directory", dir), "choose another path, for sequence numbers that are kept over restarts")}
	case err != nil && !isDir(filepath.Dir(dir)):
		return Errors{c.lacking("ipsec.state", fmt.Sprintf("ipsec.state: there is no directory %s", filepath.Dir(dir)), "create it, or choose another path, for sequence numbers that are kept over restarts")}
	}
	return nil
}

// missing reports the ports that are neither among the host's interfaces nor running, or
// are not for forwarding.
func (c *Config) missing(have []net.Interface, running []Port) (errs Errors) {
	names := make([]string, 0, len(have))
	byName := map[string]net.Flags{}
	for _, i := range have {
		byName[i.Name] = i.Flags
		if i.Flags&net.FlagLoopback == 0 {
			names = append(names, i.Name)
		}
	}
	for i, p := range c.Ports {
		key := fmt.Sprintf("ports[%d].interface", i)
		flags, ok := byName[p.Interface]
		switch {
		case !ok && slices.ContainsFunc(running, func(r Port) bool { return r.Interface == p.Interface }):
		case !ok:
			errs = append(errs, c.lacking(key, fmt.Sprintf("this host has no interface %q", p.Interface), mendInterface(p.Interface, names)))
		case flags&net.FlagLoopback != 0:
			errs = append(errs, c.fault(key, fmt.Sprintf("%q is the loopback interface, which leads nowhere", p.Interface), mendInterface("", names)))
		}
	}
	return errs
}

// refused reports the interfaces that cannot be ports, such as bonds. Of those that are
// running nothing is asked.
func (c *Config) refused(running []Port) (errs Errors) {
	for i, p := range c.Ports {
		if slices.ContainsFunc(running, func(r Port) bool { return r.Interface == p.Interface }) {
			continue
		}
		if r, ok := errors.AsType[*netdev.Refusal](netdev.CheckPort(p.Interface)); ok {
			errs = append(errs, c.fault(fmt.Sprintf("ports[%d].interface", i), r.Reason, r.Hint))
		}
	}
	return errs
}

func mendInterface(name string, have []string) string {
	if near := nearest(name, have); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(have) == 0 {
		return "it has none but loopback: create one, or move one into this network namespace"
	}
	const most = 8
	if len(have) > most {
		return "choose one that `ip link` shows, such as " + strings.Join(have[:most], ", ")
	}
	return "choose one of " + strings.Join(have, ", ")
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
