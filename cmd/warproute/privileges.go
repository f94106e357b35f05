package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/warproute/warproute/control/doctor"
)

// requirePrivileges returns an error that says which capabilities the process
// lacks to route packets, and how to get them.
func requirePrivileges() error {
	missing, err := doctor.MissingCapabilities()
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		exe = "bin/warproute"
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
	return fmt.Errorf("not enough privileges; missing are:%s\nrun it with sudo, or once:\n  %s", &b, doctor.Setcap(exe))
}
