package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/netfilter"
	"github.com/warproute/warproute/internal/cli"
	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/internal/privilege"
	"github.com/warproute/warproute/internal/service"
)

// reduce leaves the process the privileges that the configuration needs, by executing the program again if there are
// more.
func (f *runFlags) reduce() error {
	cfg, err := f.parse()
	if err != nil {
		return err
	}
	cfg.IPsec.Zero() // read again without privileges
	uid, gid, err := privilege.LookupUser(cfg.Privileges.User)
	if err != nil {
		return cli.ConfigError(err)
	}
	if filepath.Dir(cfg.Control.Socket) == filepath.Dir(config.Default().Control.Socket) {
		_ = os.Mkdir(filepath.Dir(cfg.Control.Socket), 0o755) // else the socket reports it when it is opened
	}
	options := privilege.Options{
		UID: uid, GID: gid, Group: cfg.Control.Group, Realtime: cfg.NAPI == config.NAPIThread,
		Prepare: func() error {
			privilege.UnlimitLockedMemory()
			_ = netdev.ShowSysfs() // else the NUMA nodes of ports are unknown
			if uid < 0 {
				return nil
			}
			netfilter.KeepNames()
			return giveFiles(cfg, uid, gid)
		},
	}
	if f.upgradeFD != 0 {
		err = privilege.CheckUpgrade(options)
	}
	if err == nil {
		err = privilege.Reduce(options)
	}
	if err != nil {
		return cli.ConfigError(err)
	}
	return nil
}

// giveFiles gives a user the directories that the router writes to.
func giveFiles(cfg *config.Config, uid, gid int) error {
	if err := os.MkdirAll(cfg.IPsec.State, 0o700); err != nil {
		return err
	}
	dirs := []string{cfg.IPsec.State}
	if run := filepath.Dir(config.Default().Control.Socket); filepath.Dir(cfg.Control.Socket) == run {
		dirs = append(dirs, run)
	}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, uid, gid)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// confine returns the restrictions of a configuration.
func confine(cfg *config.Config) service.Confine {
	if !cfg.Privileges.Seccomp {
		return service.Confine{}
	}
	return service.Confine{Process: privilege.ConfineProcess, Worker: privilege.ConfineWorker}
}
