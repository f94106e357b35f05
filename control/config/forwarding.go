package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/warproute/warproute/internal/textfile"
)

// ForwardingSettings returns the settings of Linux, as paths below /proc/sys, by each of
// which it forwards what arrives at some of the interfaces, unless it is 0. No kernel has to
// have all of them.
func ForwardingSettings(interfaces ...string) []string {
	settings := []string{"net/ipv6/conf/all/forwarding"}
	for _, name := range interfaces { // IPv4 goes by the interface's own alone; IPv6 has one from Linux 6.17 on
		settings = append(settings, "net/ipv4/conf/"+name+"/forwarding", "net/ipv6/conf/"+name+"/force_forwarding")
	}
	return settings
}

// SettingName returns the name by which sysctl knows a path below /proc/sys: it has dots for
// slashes, and slashes for an interface's dots.
func SettingName(path string) string { return strings.NewReplacer("/", ".", ".", "/").Replace(path) }

// GuardedPorts returns the ports of a configuration file from and to which Linux is to
// forward nothing: of a gateway with linux_forwarding: drop. It reads no keys, and mistakes
// elsewhere in the file do not matter, so that such a gateway is closed, too.
func GuardedPorts(path string) (names []string, err error) {
	data, err := textfile.Read(path, maxFileSize)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	r := read(path, data)
	defer r.config.IPsec.Zero()
	if len(r.errs) > 0 && len(r.config.Ports) == 0 {
		return nil, r.errs
	}
	if !r.config.Protects() || r.config.IPsec.LinuxForwarding != LinuxForwardingDrop {
		return nil, nil
	}
	for _, p := range r.config.Ports {
		names = append(names, p.Interface)
	}
	return names, nil
}

// checkForwarding checks that Linux forwards nothing that policies of the configuration
// are for, where it is not kept from it (linux_forwarding: allow). It knows none of them,
// and has all packets when the router has stopped. The settings are those below sysctl.
func (c *Config) checkForwarding(sysctl string) (errs Errors) {
	if c.IPsec.LinuxForwarding != LinuxForwardingAllow || c.IPsec.Source != SourceConfig || len(c.IPsec.Policies) == 0 {
		return nil
	}
	var ports []string
	for _, p := range c.Ports {
		ports = append(ports, p.Interface)
	}
	for _, path := range ForwardingSettings(ports...) {
		value, err := os.ReadFile(filepath.Join(sysctl, path))
		if err == nil && strings.TrimSpace(string(value)) != "0" {
			name := SettingName(path)
			errs = append(errs, c.lacking("ipsec.policies", fmt.Sprintf("ipsec.policies: Linux also forwards packets (%s), past the policies and in clear", name),
				fmt.Sprintf("write linux_forwarding: drop, or sysctl -w %s=0", name)))
		}
	}
	return errs
}
