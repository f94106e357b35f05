package sequences

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// tables are the file names of a directory.
var tables = []string{"used", "received", "lifetimes"}

// openTables opens the files of a directory. They are created together, so a missing file beside
// one with records was lost, which is an error.
func (s *Store) openTables() error {
	missing := ""
	for i, t := range []**table{&s.used, &s.received, &s.lifetimes} {
		path := filepath.Join(s.dir, tables[i])
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			missing = path
			continue
		}
		var err error
		if *t, err = openTable(path); err != nil {
			return err
		}
	}
	for _, t := range []*table{s.used, s.received, s.lifetimes} {
		if missing != "" && t != nil && len(t.at) > 0 {
			return damaged(missing, fmt.Errorf("it is missing beside %s, which has %d records", t.path, len(t.at)))
		}
	}
	for i, t := range []**table{&s.used, &s.received, &s.lifetimes} {
		if *t != nil {
			continue
		}
		var err error
		if *t, err = openTable(filepath.Join(s.dir, tables[i])); err != nil {
			return err
		}
	}
	return nil
}

// damaged returns the error about a file that no router has written like that.
func damaged(path string, why error) error {
	return fmt.Errorf("%s is damaged: %w; give all associations new keys and remove the directory %s, or restore all of it from a copy",
		path, why, filepath.Dir(path))
}

// Magic numbers of volatile filesystems (linux/magic.h).
const (
	magicTmpfs   = 0x01021994
	magicRamfs   = 0x858458f6
	magicOverlay = 0x794c7630
)

// Volatile returns the type of the directory's filesystem if its files are lost with the host's
// memory or with a container, else "".
func (s *Store) Volatile() string {
	var st syscall.Statfs_t
	if err := syscall.Fstatfs(int(s.lock.Fd()), &st); err != nil {
		return ""
	}
	return volatile(uint32(st.Type))
}

func volatile(magic uint32) string {
	switch magic {
	case magicTmpfs:
		return "tmpfs"
	case magicRamfs:
		return "ramfs"
	case magicOverlay:
		return "overlayfs"
	}
	return ""
}
