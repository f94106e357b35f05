package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/warproute/warproute/internal/textfile"
)

// maxKeyFile is more than the longest key needs, as hex digits, with an end of line.
const maxKeyFile = 1024 // bytes

// readKeyFiles reads the keys that are in files of their own.
func (r *reader) readKeyFiles() {
	for i := range r.config.IPsec.SAs {
		a := &r.config.IPsec.SAs[i]
		r.readKeyFile(fmt.Sprintf("ipsec.sas[%d].key_file", i), a.KeyFile, &a.Key)
		r.readKeyFile(fmt.Sprintf("ipsec.sas[%d].auth_key_file", i), a.AuthKeyFile, &a.AuthKey)
	}
}

// readKeyFile reads a key from a path that is relative to the configuration file. The file
// is not a symbolic link, and belongs to root or the user of this process alone.
func (r *reader) readKeyFile(key, path string, dst *Key) {
	if path == "" || dst.Len() > 0 {
		return
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(r.config.file), path)
	}
	fail := func(msg, mend string) {
		r.errs = append(r.errs, r.config.fault(key, key+": "+msg, mend))
	}
	const mend = "write the key there, as hex digits in one line"
	link, err := os.Lstat(path)
	if err == nil && link.Mode()&fs.ModeSymlink != 0 {
		fail(path+" is a symbolic link", "name the file itself; who owns the link could point it to another key")
		return
	}
	f, info, err := textfile.Open(path, 0)
	switch {
	case errors.Is(err, textfile.ErrType):
		fail(err.Error(), "name one that has the key, as hex digits in one line")
		return
	case err != nil:
		fail(err.Error(), mend)
		return
	}
	defer f.Close()
	why, hint := exposed(path, info)
	switch {
	case !os.SameFile(link, info):
		fail(path+" was replaced while it was read", "try again")
		return
	case why != "":
		fail(why, hint)
		return
	case info.Size() > maxKeyFile:
		fail(fmt.Sprintf("%s has %d bytes, which no key has", path, info.Size()), mend)
		return
	}
	text, err := textfile.ReadOpen(f, info, maxKeyFile)
	if err != nil {
		fail(err.Error(), mend)
		return
	}
	defer clear(text)
	if *dst, err = parseKey(bytes.TrimSpace(text)); err != nil {
		fail(path+": "+err.Error(), mend)
	}
}
