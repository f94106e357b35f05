package netdev

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// WithSysfs calls f with the path of a sysfs that shows the network namespace of the calling thread. /sys may show another
// one, so it is a private mount, which needs CAP_SYS_ADMIN, or without that /sys.
func WithSysfs(f func(path string)) {
	root, err := mountSysfs()
	if err != nil {
		f("/sys")
		return
	}
	defer unix.Close(root)
	f(fmt.Sprintf("/proc/self/fd/%d", root))
}

// WriteSysfs writes a file below /sys, such as class/net/lan0/threaded, in the network namespace
// of the calling thread, as WithSysfs.
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

// ShowSysfs mounts a sysfs at /sys, in a new mount namespace of the calling thread, if /sys shows another network
// namespace than that of the thread. Other mount namespaces do not see it. It needs CAP_SYS_ADMIN.
func ShowSysfs() error {
	if shown, err := sysfsShowsInterfaces(); shown || err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("create a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("hide mounts from other mount namespaces: %w", err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mount sysfs: %w", err)
	}
	return nil
}

// sysfsShowsInterfaces reports whether /sys has the interfaces of the network namespace of the calling thread, by the
// names of all and the indexes of some.
func sysfsShowsInterfaces() (bool, error) {
	const compared = 64 // reading the indexes of thousands of interfaces takes a third of the router's start
	have, err := Devices()
	if err != nil {
		return false, err
	}
	links := make(map[string]int, len(have))
	for _, i := range have {
		links[i.Name] = i.Index
	}
	entries, err := os.ReadDir("/sys/class/net")
	if err != nil {
		return false, err
	}
	shown := 0
	for _, e := range entries {
		index, ok := links[e.Name()]
		if ok && shown >= compared {
			shown++
			continue
		}
		text, err := os.ReadFile(filepath.Join("/sys/class/net", e.Name(), "ifindex"))
		if err != nil {
			continue // a file, or gone
		}
		if n, _ := strconv.Atoi(strings.TrimSpace(string(text))); !ok || n != index {
			return false, nil
		}
		shown++
	}
	return shown == len(links), nil
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
