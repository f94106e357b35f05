package config

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// exposed returns the reason why other users can read or change a file with keys, and a hint; ""
// if they cannot. The owner must be root, the user of this process, or, for root, the user of a router
// that it starts or checks. The parent directories need
// no check: other users cannot create a file with such an owner.
func exposed(path string, info fs.FileInfo, router string) (why, hint string) {
	mode := info.Mode().Perm()
	st, ok := info.Sys().(*syscall.Stat_t)
	router = cmp.Or(router, ServiceUser)
	switch me := os.Geteuid(); {
	case ok && st.Uid != 0 && int(st.Uid) != me && !(me == 0 && isUser(int(st.Uid), router)):
		owner := strconv.Itoa(me)
		if _, err := user.Lookup(router); me == 0 && err == nil {
			owner = router
		}
		return fmt.Sprintf("%s is owned by user %d, who can change it", path, st.Uid), fmt.Sprintf("chown %s %s", owner, path)
	case mode&0o077 != 0:
		return fmt.Sprintf("%s is accessible to other users (mode %04o)", path, mode), "chmod 600 " + path
	}
	return "", ""
}

// ServiceUser is the user of contrib/warproute.service.
const ServiceUser = "warproute"

func isUser(uid int, name string) bool {
	u, err := user.Lookup(name)
	return err == nil && u.Uid == strconv.Itoa(uid)
}

// checkInlineKeys rejects inline keys if other users can read or change the configuration file. It
// reports the first key only.
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
		if why, hint := exposed(path, info, r.config.Privileges.User); why != "" {
			r.errs = append(r.errs, r.config.fault(key, fmt.Sprintf("%s: inline key, but %s", key, why), hint+", or move the key to a separate file (key_file)"))
		}
		return
	}
}
