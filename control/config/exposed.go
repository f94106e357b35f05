package config

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// exposed returns why a file with keys is not safe from other users, and a hint, or "". Its
// owner can change it, and so must be root or the user of this process. The directories
// around it need no check: who can replace the file cannot make one with such an owner.
func exposed(path string, info fs.FileInfo) (why, hint string) {
	mode := info.Mode().Perm()
	st, ok := info.Sys().(*syscall.Stat_t)
	switch me := os.Geteuid(); {
	case ok && st.Uid != 0 && int(st.Uid) != me:
		return fmt.Sprintf("%s belongs to user %d, who can change it", path, st.Uid), fmt.Sprintf("chown %d %s", me, path)
	case mode&0o077 != 0:
		return fmt.Sprintf("%s is open to others than its owner (mode %04o)", path, mode), "chmod 600 " + path
	}
	return "", ""
}

// checkInlineKeys refuses keys in a configuration file that others can read or change. One
// error is enough.
func (r *reader) checkInlineKeys(path string, info fs.FileInfo) {
	for i := range r.config.IPsec.SAs {
		a := &r.config.IPsec.SAs[i]
		key := fmt.Sprintf("ipsec.sas[%d].key", i)
		switch {
		case a.Key.Len() > 0:
		case a.AuthKey.Len() > 0:
			key = fmt.Sprintf("ipsec.sas[%d].auth_key", i)
		default:
			continue
		}
		if why, hint := exposed(path, info); why != "" {
			r.errs = append(r.errs, r.config.fault(key, fmt.Sprintf("%s: there is a key in the configuration, and %s", key, why), hint+", or write the key to a file of its own (key_file)"))
		}
		return
	}
}
