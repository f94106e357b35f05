package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/warproute/warproute/control/doctor"
)

// RequirePrivileges returns an error that names the capabilities that the process lacks for AF_XDP
// ports, and how to grant them.
func RequirePrivileges() error {
	missing, err := doctor.MissingCapabilities()
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		exe = os.Args[0]
	}
	return privilegeError(missing, exe)
}

func privilegeError(missing []doctor.Capability, exe string) error {
	if len(missing) == 0 {
		return nil
	}
	var b strings.Builder
	for _, c := range missing {
		fmt.Fprintf(&b, "\n  %-14s to %s", c.Name, c.Why)
	}
	return fmt.Errorf("missing capabilities:%s\nrun it with sudo, or once:\n  %s", &b, doctor.Setcap(exe))
}
