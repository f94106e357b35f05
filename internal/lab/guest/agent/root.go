package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab/guest/wire"
)

// enterRoot mounts an overlay of memory over the host's files, and /proc, /sys and /dev, and makes it
// the root.
func enterRoot(dir string, c wire.Config) error {
	for _, module := range c.Insert {
		if err := insert(module); err != nil {
			return err
		}
	}
	lower, layer, root := "/", filepath.Join(dir, wire.LayerDir), filepath.Join(dir, wire.RootDir)
	if c.Share != "" {
		lower = filepath.Join(dir, wire.HostDir)
		if err := mount(c.Share, lower, ""); err != nil {
			return err
		}
	}
	if err := mount("tmpfs", layer, ""); err != nil {
		return err
	}
	upper, work := filepath.Join(layer, "upper"), filepath.Join(layer, "work")
	if err := makeDirs(upper, work); err != nil {
		return err
	}
	if err := mount("overlay", root, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", lower, upper, work)); err != nil {
		return err
	}
	for _, m := range []struct{ fs, at string }{
		{"proc", "proc"}, {"sysfs", "sys"}, {"devtmpfs", "dev"}, {"devpts", "dev/pts"}, {"tmpfs", "dev/shm"}, {"tmpfs", "run"},
	} {
		at := filepath.Join(root, m.at)
		if err := makeDirs(at); err != nil {
			return err
		}
		if err := mount(m.fs, at, ""); err != nil {
			return err
		}
	}
	// modprobe, which the kernel calls, too, looks only there.
	modules := filepath.Join(root, "lib/modules", filepath.Base(c.Modules))
	if err := makeDirs(filepath.Dir(modules)); err != nil {
		return err
	}
	if err := os.Symlink(c.Modules, modules); err != nil && !os.IsExist(err) {
		return err
	}
	if err := unix.Chroot(root); err != nil {
		return fmt.Errorf("chroot to %s: %w", root, err)
	}
	return os.Chdir("/")
}

func insert(module string) error {
	f, err := os.Open(module)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil {
		return fmt.Errorf("insert module %s: %w", module, err)
	}
	return nil
}

func mount(fs, at, options string) error {
	if err := unix.Mount("root", at, fs, 0, options); err != nil {
		return fmt.Errorf("mount %s at %s: %w", fs, at, err)
	}
	return nil
}

func makeDirs(paths ...string) error {
	for _, p := range paths {
		if err := os.MkdirAll(p, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// controlPath returns the path of a terminal, or of a virtio port by its name.
func controlPath(name string) (string, error) {
	if strings.HasPrefix(name, "/") {
		return name, nil
	}
	ports, err := filepath.Glob("/sys/class/virtio-ports/*")
	if err != nil {
		return "", err
	}
	for _, p := range ports {
		if text, err := os.ReadFile(filepath.Join(p, "name")); err == nil && strings.TrimSpace(string(text)) == name {
			return filepath.Join("/dev", filepath.Base(p)), nil
		}
	}
	return "", fmt.Errorf("none of %d virtio ports is named %q", len(ports), name)
}
