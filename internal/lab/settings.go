package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/warproute/warproute/internal/netdev"
)

// Sysctl sets a setting of the namespace: "net.ipv4.ip_forward", or "net/ipv4/conf/lan0.1/forwarding"
// for an interface name with a dot.
func (ns *Namespace) Sysctl(name, value string) error {
	path := name
	if !strings.Contains(path, "/") {
		path = strings.ReplaceAll(path, ".", "/")
	}
	return ns.Do(func() error {
		if err := os.WriteFile(filepath.Join("/proc/sys", path), []byte(value), 0); err != nil {
			return fmt.Errorf("set sysctl %s=%s in namespace %q: %w", name, value, ns.name, err)
		}
		return nil
	})
}

// Sysfs sets a file below /sys as the namespace sees it, such as
// "class/net/lan0/threaded".
func (ns *Namespace) Sysfs(path, value string) error {
	if err := ns.Do(func() error { return netdev.WriteSysfs(path, value) }); err != nil {
		return fmt.Errorf("write %q to /sys/%s in namespace %q: %w", value, path, ns.name, err)
	}
	return nil
}
