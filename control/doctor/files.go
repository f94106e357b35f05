package doctor

import (
	"cmp"
	"fmt"
	"os"
	"os/user"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/internal/privilege"
)

// Files checks whether the user of the router can read the files of a configuration: the one that it names, or that of the
// systemd unit, if there is one. Only root can tell.
func Files(c *config.Config) []Finding {
	name := cmp.Or(c.Privileges.User, config.ServiceUser)
	if _, err := user.Lookup(name); err != nil || os.Geteuid() != 0 {
		return nil
	}
	unreadable, err := unreadable(c.Files(), name)
	f := Finding{Check: "configuration", Level: OK, Found: fmt.Sprintf("user %s can read its files", name)}
	switch {
	case err != nil:
		f.Level, f.Found = Warn, fmt.Sprintf("find out whether user %s can read its files: %v", name, err)
	case unreadable != nil:
		f.Level, f.Found = Warn, fmt.Sprintf("user %s, which runs the router (by systemd, or privileges.user), cannot read it: %v", name, unreadable)
		f.Hint = fmt.Sprintf("chmod 644 the file, or chown %s it if it has keys; others must be able to enter its directory", name)
	}
	return []Finding{f}
}

// unreadable returns the error of the first file that a user cannot open, nil if it can open all. Only root can call it.
func unreadable(files []string, name string) (unreadable, err error) {
	err = privilege.AsUser(name, func() {
		for _, path := range files {
			var f *os.File
			if f, unreadable = os.Open(path); unreadable != nil {
				return
			}
			f.Close()
		}
	})
	return unreadable, err
}
