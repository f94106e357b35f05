package config

import (
	"bytes"
	"errors"
	"fmt"
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

// readKeyFile reads a key from a path that is relative to the configuration file.
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
	switch {
	case info.Mode().Perm()&0o077 != 0:
		fail(fmt.Sprintf("%s is open to others than its owner (mode %04o)", path, info.Mode().Perm()), "chmod 600 "+path)
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
