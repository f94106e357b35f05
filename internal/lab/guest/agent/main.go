// Command agent is the first process of a guest: it mounts the root and runs commands from the host.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab/guest/wire"
)

// The agent prints to the console, which the host shows if a guest does not boot.
func main() {
	if os.Getpid() == 1 {
		if err := first(filepath.Dir(os.Args[0])); err != nil {
			fmt.Println("agent:", err)
		}
		unix.Sync()
		unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	}
	if err := serve(os.Args[1]); err != nil {
		fmt.Println("agent:", err)
		os.Exit(1)
	}
}

// first is the first process. It mounts the root, starts a second agent for commands, and reaps
// orphans.
func first(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, wire.ConfigFile))
	if err != nil {
		return fmt.Errorf("read what to set up: %w", err)
	}
	var config wire.Config
	if err := json.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("read what to set up: %w", err)
	}
	self, err := os.Open(os.Args[0]) // as the new root may not have it
	if err != nil {
		return err
	}
	if err := enterRoot(dir, config); err != nil {
		return fmt.Errorf("make the root: %w", err)
	}
	control, err := controlPath(config.Control)
	if err != nil {
		return err
	}
	server := exec.Command(fmt.Sprintf("/proc/self/fd/%d", self.Fd()), control)
	server.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"}
	server.Stdout, server.Stderr = os.Stdout, os.Stderr
	if err := server.Start(); err != nil {
		return fmt.Errorf("start the server of commands: %w", err)
	}
	for {
		pid, err := unix.Wait4(-1, nil, 0, nil)
		if err == nil && pid == server.Process.Pid {
			return nil
		}
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("wait for processes: %w", err)
		}
	}
}
