package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Sysctl sets a setting of the namespace: "net.ipv4.ip_forward", or, where an
// interface's name has a dot in it, "net/ipv4/conf/lan0.1/forwarding".
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
	if err := ns.Do(func() error { return writeSysfs(path, value) }); err != nil {
		return fmt.Errorf("write %q to /sys/%s in namespace %q: %w", value, path, ns.name, err)
	}
	return nil
}

// writeSysfs writes to a sysfs of the calling thread's namespace. What /sys
// shows depends on who mounted it; this mount is private and never attached.
func writeSysfs(path, value string) error {
	fs, err := unix.Fsopen("sysfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open a sysfs: %w", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return fmt.Errorf("create a sysfs: %w", err)
	}
	root, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("mount a sysfs: %w", err)
	}
	defer unix.Close(root)
	fd, err := unix.Openat(root, filepath.Clean(path), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(value))
	return err
}
