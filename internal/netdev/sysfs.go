package netdev

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// WriteSysfs writes a file below /sys, such as class/net/lan0/threaded, in the network namespace
// of the calling thread. /sys may show another namespace, so it mounts a private sysfs for the
// write, which needs CAP_SYS_ADMIN, and falls back to /sys.
func WriteSysfs(path, value string) error {
	root, err := mountSysfs()
	if err != nil {
		if root, err = unix.Open("/sys", unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
			return fmt.Errorf("open /sys: %w", err)
		}
	}
	defer unix.Close(root)
	fd, err := unix.Openat(root, filepath.Clean(path), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /sys/%s: %w", path, err)
	}
	defer unix.Close(fd)
	if _, err = unix.Write(fd, []byte(value)); err != nil {
		return fmt.Errorf("write %q to /sys/%s: %w", value, path, err)
	}
	return nil
}

// mountSysfs returns the root of a new sysfs mount that is not attached to any directory.
func mountSysfs() (fd int, err error) {
	fs, err := unix.Fsopen("sysfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
}
