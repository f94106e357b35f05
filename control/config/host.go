package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/warproute/warproute/internal/netdev"
)

// CheckHost checks the values and then compares them with this host, in the network namespace of
// the process. It returns an Errors. The running ports are those of a router that reloads: their
// interfaces can be missing for a while, and are not checked.
func CheckHost(c *Config, running ...Port) error {
	if err := c.Check(); err != nil {
		return err
	}
	have, err := netdev.Devices()
	if err != nil {
		return err
	}
	errs := slices.Concat(c.checkInterfaces(have, running), c.checkQueues(running, portQueues), c.checkPortTypes(running))
	dir := filepath.Dir(c.Control.Socket)
	if dir == filepath.Dir(Default().Control.Socket) && !isDir(dir) {
		dir = filepath.Dir(dir) // the router creates that of the default socket
	}
	if !isDir(dir) {
		errs = append(errs, c.hostFault("control.socket", fmt.Sprintf("control.socket: directory %s does not exist", dir), "create it, or choose another path"))
	}
	return slices.Concat(errs, c.checkState(), c.checkWebFile(), c.checkForwarding("/proc/sys")).orNil()
}

// checkState checks the directory of stored sequence numbers if there are outbound SAs. The router
// creates the directory, but not its parent.
func (c *Config) checkState() Errors {
	dir := c.IPsec.State
	info, err := os.Stat(dir)
	switch {
	case !slices.ContainsFunc(c.IPsec.SAs, func(a SA) bool { return a.Direction == DirectionOut }):
		return nil
	case err == nil && !info.IsDir():
		return Errors{c.fault("ipsec.state", fmt.Sprintf("ipsec.state: %s is not a directory", dir), "choose another path for stored sequence numbers")}
	case err != nil && !isDir(filepath.Dir(dir)):
		return Errors{c.hostFault("ipsec.state", fmt.Sprintf("ipsec.state: directory %s does not exist", filepath.Dir(dir)), "create it, or choose another path for stored sequence numbers")}
	}
	return nil
}

// checkInterfaces reports loopback ports, and ports whose interface does not exist unless they are
// running.
func (c *Config) checkInterfaces(have []netdev.Device, running []Port) (errs Errors) {
	names := make([]string, 0, len(have))
	loopback := map[string]bool{} // by name of all
	for _, d := range have {
		loopback[d.Name] = d.Loopback
		if !d.Loopback {
			names = append(names, d.Name)
		}
	}
	for i, p := range c.Ports {
		key := fmt.Sprintf("ports[%d].interface", i)
		isLoopback, ok := loopback[p.Interface]
		switch {
		case p.Pattern() || p.Excludes():
		case !ok && hasPort(running, p.Interface):
		case !ok:
			errs = append(errs, c.hostFault(key, fmt.Sprintf("this host has no interface %q", p.Interface), hintInterface(p.Interface, names)))
		case isLoopback:
			errs = append(errs, c.fault(key, fmt.Sprintf("%q is the loopback interface, which cannot be a port", p.Interface), hintInterface("", names)))
		}
	}
	return errs
}

// checkPortTypes reports interfaces that cannot be ports, such as teams and members of bonds. It skips running
// ports.
func (c *Config) checkPortTypes(running []Port) (errs Errors) {
	for i, p := range c.Ports {
		if hasPort(running, p.Interface) || p.Pattern() || p.Excludes() {
			continue
		}
		if r, ok := errors.AsType[*netdev.Refusal](netdev.CheckPort(p.Interface)); ok {
			err := c.fault(fmt.Sprintf("ports[%d].interface", i), r.Reason, r.Hint)
			err.Transient = r.Later
			errs = append(errs, err)
		}
	}
	return errs
}

// hasPort reports whether an interface is among ports.
func hasPort(ports []Port, name string) bool {
	return slices.ContainsFunc(ports, func(p Port) bool { return p.Interface == name })
}

// hintInterface suggests an existing interface.
func hintInterface(name string, have []string) string {
	if near := nearest(name, have); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(have) == 0 {
		return "only loopback exists: create an interface, or move one into this network namespace"
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
