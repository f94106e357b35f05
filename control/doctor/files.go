package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strings"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/internal/privilege"
)

// Configuration checks a configuration on this host as `warproute check` does. Examine checks the interfaces of its ports. A user
// other than root may be unable to read what the router can.
func Configuration(c *config.Config) (found []Finding) {
	err := config.CheckHost(c)
	if err == nil {
		return nil
	}
	var all config.Errors
	if !errors.As(err, &all) {
		return []Finding{{Check: "configuration", Level: Fail, Found: err.Error()}}
	}
	for _, e := range all {
		f := Finding{Check: "configuration", Level: Fail, Found: e.Msg, Hint: e.Hint}
		if at := e.Position(); at != "" {
			f.Found = at + ": " + f.Found
		}
		if os.Geteuid() != 0 && strings.Contains(e.Msg, fs.ErrPermission.Error()) {
			f.Level, f.Hint = Warn, "run it with sudo"
		}
		if !e.AboutInterface() {
			found = append(found, f)
		}
	}
	return found
}

// Files checks whether the user of the router can read the files of a configuration: the one that it names, or that of the
// systemd unit, if there is one. Only root can tell.
func Files(c *config.Config) []Finding {
	if os.Geteuid() != 0 {
		return nil
	}
	name, level, runs := c.Privileges.User, Fail, "privileges.user"
	if name == "" {
		name, level, runs = config.ServiceUser, Warn, "the systemd unit"
	}
	found := func(level Level, hint, format string, args ...any) []Finding {
		return []Finding{{Check: "configuration", Level: level, Found: fmt.Sprintf(format, args...), Hint: hint}}
	}
	if _, err := user.Lookup(name); err != nil {
		if level == Warn {
			return nil // there is no unit
		}
		return found(Fail, "useradd --system "+name, "privileges.user: %v", err)
	}
	var unreadable error
	if err := privilege.AsUser(name, func() { unreadable = c.OpenFiles() }); err != nil {
		return found(Warn, "", "find out whether user %s can read its files: %v", name, err)
	}
	switch {
	case errors.Is(unreadable, fs.ErrPermission):
		return found(level, fmt.Sprintf("chmod 644 the file, or chown %s it if it has keys; others must be able to enter its directory", name),
			"user %s, of %s, cannot read it: %v", name, runs, unreadable)
	case unreadable != nil:
		return found(level, "", "user %s, of %s, cannot read it: %v", name, runs, unreadable)
	}
	return found(OK, "", "user %s can read its files", name)
}
