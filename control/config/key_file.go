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

// maxKeyFile limits the size of key files. The longest key needs less.
const maxKeyFile = 1024 // bytes

// readKeyFiles reads all key files.
func (r *reader) readKeyFiles() {
	for i := range r.config.IPsec.SAs {
		a := &r.config.IPsec.SAs[i]
		r.readKeyFile(fmt.Sprintf("ipsec.sas[%d].key_file", i), a.KeyFile, &a.Key)
		r.readKeyFile(fmt.Sprintf("ipsec.sas[%d].auth_key_file", i), a.AuthKeyFile, &a.AuthKey)
	}
}

// readKeyFile reads a key file. A relative path starts at the directory of the configuration. The
// file must not be a symbolic link or accessible to other users.
func (r *reader) readKeyFile(key, path string, dst *Key) {
	if path == "" || dst.Len() > 0 {
		return
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(r.config.file), path)
	}
	fail := func(msg, hint string) {
		r.errs = append(r.errs, r.config.fault(key, key+": "+msg, hint))
	}
	const writeKey = "write the key to it, as hex digits on one line"
	link, err := os.Lstat(path)
	if err == nil && link.Mode()&fs.ModeSymlink != 0 {
		fail(path+" is a symbolic link", "write the path of its target: the owner of the link could change it to another key")
		return
	}
	f, info, err := textfile.Open(path, 0)
	switch {
	case errors.Is(err, textfile.ErrType):
		fail(err.Error(), "write the path of a file with the key, as hex digits on one line")
		return
	case errors.Is(err, fs.ErrPermission):
		fail(err.Error(), "run this as root or as the router's user; if it is the router, give it the file (chown), and let it enter the directory")
		return
	case err != nil:
		fail(err.Error(), writeKey)
		return
	}
	defer f.Close()
	why, hint := exposed(path, info, r.config.Privileges.User)
	switch {
	case !os.SameFile(link, info):
		fail(path+" was replaced during the read", "try again")
		return
	case why != "":
		fail(why, hint)
		return
	case info.Size() > maxKeyFile:
		fail(fmt.Sprintf("%s: %d bytes are too many for a key", path, info.Size()), writeKey)
		return
	}
	text, err := textfile.ReadOpen(f, info, maxKeyFile)
	if err != nil {
		fail(err.Error(), writeKey)
		return
	}
	defer clear(text)
	if *dst, err = parseKey(bytes.TrimSpace(text)); err != nil {
		fail(path+": "+err.Error(), writeKey)
	}
}
