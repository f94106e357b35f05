// Package sysfs writes settings of network interfaces.
package sysfs

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Write sets a file below /sys, such as class/net/lan0/threaded, as the network
// namespace of the calling thread has it. What is mounted at /sys may be another
// namespace's, so it makes a sysfs of its own for the moment. It needs
// CAP_SYS_ADMIN, or /sys to be the right one.
func Write(path, value string) error {
	root, err := mount()
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

// mount returns the root of a sysfs that is mounted nowhere.
func mount() (fd int, err error) {
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
