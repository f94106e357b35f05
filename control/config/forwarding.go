package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/warproute/warproute/internal/textfile"
)

// ForwardingSettings returns the sysctls, as paths below /proc/sys, that let Linux forward packets
// received on the interfaces. Linux does not forward if all of them are 0 or absent.
func ForwardingSettings(interfaces ...string) []string {
	settings := []string{"net/ipv6/conf/all/forwarding"}
	for _, name := range interfaces { // IPv4 has settings per interface only; IPv6 has them since Linux 6.17
		settings = append(settings, "net/ipv4/conf/"+name+"/forwarding", "net/ipv6/conf/"+name+"/force_forwarding")
	}
	return settings
}

// SettingName returns the sysctl name of a path below /proc/sys. It swaps slashes and dots, because
// interface names can contain dots.
func SettingName(path string) string { return strings.NewReplacer("/", ".", ".", "/").Replace(path) }

// GuardedPorts returns whether a configuration is of an IPsec gateway with linux_forwarding: drop, and its ports, of which there may be none
// yet if it has patterns. Linux must not forward packets from or to them. It ignores mistakes elsewhere in the file and reads no key
// files, so that a gateway with a broken configuration is also guarded.
func GuardedPorts(path string) (names []string, gateway bool, err error) {
	data, _, err := textfile.Read(path, maxFileSize)
	if err != nil {
		return nil, false, fmt.Errorf("read configuration: %w", err)
	}
	r := read(path, data)
	defer r.config.IPsec.Zero()
	if len(r.errs) > 0 && len(r.config.Ports) == 0 {
		return nil, false, r.errs
	}
	if !r.config.Protects() || r.config.IPsec.LinuxForwarding != LinuxForwardingDrop {
		return nil, false, nil
	}
	names, err = r.config.present()
	return names, true, err
}

// checkForwarding checks that forwarding by Linux is off if the configuration has policies and
// linux_forwarding: allow. Linux does not apply these policies, and receives all packets after the
// router stops. The sysctl directory is /proc/sys except in tests.
func (c *Config) checkForwarding(sysctl string) (errs Errors) {
	if c.IPsec.LinuxForwarding != LinuxForwardingAllow || c.IPsec.Source != SourceConfig || len(c.IPsec.Policies) == 0 {
		return nil
	}
	for _, path := range ForwardingSettings(c.Interfaces()...) {
		value, err := os.ReadFile(filepath.Join(sysctl, path))
		if err == nil && strings.TrimSpace(string(value)) != "0" {
			name := SettingName(path)
			errs = append(errs, c.hostFault("ipsec.policies", fmt.Sprintf("ipsec.policies: Linux also forwards packets (%s), without the policies and in plaintext", name),
				fmt.Sprintf("write linux_forwarding: drop, or run sysctl -w %s=0", name)))
		}
	}
	return errs
}
