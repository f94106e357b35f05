// Package systemd tests contrib/warproute.service under systemd: after any end of the router except
// by a wrong configuration, it forwards again within seconds.
//
// The unit needs its own kernel and manager, so all of it runs in a virtual machine.
package systemd

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab/guest"
	"github.com/warproute/warproute/internal/require"
)

func TestUnit(t *testing.T) {
	guest.InVM(t, 240*time.Second, []string{"veth", "tun", "dummy", "iptable_filter"}, testUnit)
}

const unit = "../../../contrib/warproute.service"

// patience allows for a guest on a busy machine; on an idle one, each case takes some seconds.
const patience = 30 * time.Second

func testUnit(t *testing.T, program string) {
	h := newHost(t, func(h *host) {
		h.run("cp", program, "/usr/local/bin/warproute") // the unit does not see /tmp
		file, err := filepath.Abs(unit)
		h.must(err)
		h.link(file)
		users, err := filepath.Abs("../../../packaging/sysusers.d/warproute.conf")
		h.must(err)
		h.run("systemd-sysusers", users)
		h.configure(goodConfig) // for the new user
		h.systemctl("daemon-reload")
	})
	h.beside("iptables-legacy", "-A", "FORWARD", "-p", "tcp", "--dport", "25", "-j", "DROP")
	h.systemctl("start", "warproute")
	h.forwardsWithin(patience, "the start")

	t.Run("privileges", func(t *testing.T) { testPrivileges(t, h) })
	t.Run("addresses", func(t *testing.T) { testAddresses(t, h) })
	t.Run("SIGQUIT", func(t *testing.T) {
		h.restarts(t, func() { h.systemctl("kill", "--signal=QUIT", "warproute") })
		h.logged(t, "SIGQUIT: quit", "goroutine 1 ") // the log has the stacks
	})
	t.Run("SIGKILL", func(t *testing.T) {
		h.restarts(t, func() { h.systemctl("kill", "--signal=KILL", "warproute") })
	})
	t.Run("out of memory", func(t *testing.T) {
		group := "/sys/fs/cgroup" + h.show("ControlGroup")
		h.restarts(t, func() {
			// Less than the router uses: the kernel kills it.
			require.NoError(t, os.WriteFile(filepath.Join(group, "memory.max"), []byte("1M"), 0))
		})
		h.logged(t, "oom-kill")
	})
	t.Run("stuck", func(t *testing.T) {
		h.restarts(t, func() { h.systemctl("kill", "--signal=STOP", "warproute") })
		h.logged(t, "Watchdog timeout", "SIGABRT: abort")
	})
	t.Run("port that appears late", func(t *testing.T) {
		h.systemctl("stop", "warproute")
		h.deleteLAN()
		h.systemctl("start", "--no-block", "warproute")
		h.eventually(t, patience, "systemd restarts it repeatedly", func() bool { return h.number("NRestarts") >= 2 })
		h.logged(t, `this host has no interface "lan0"`)
		if limit := h.show("StartLimitIntervalUSec"); limit != "0" {
			t.Errorf("restarts are limited within %s", limit)
		}
		h.addLAN()
		h.forwardsWithin(patience, "the port appeared")
	})
	t.Run("wrong configuration", func(t *testing.T) {
		h.configure("ports: [{interface: lan0}]\nengine: gpuu\n")
		_ = h.try("restart", "warproute")
		h.eventually(t, patience, "the unit has failed", func() bool { return h.show("ActiveState") == "failed" })
		time.Sleep(1500 * time.Millisecond) // longer than RestartSec
		if code, n, state := h.number("ExecMainStatus"), h.number("NRestarts"), h.show("ActiveState"); code != 78 || n != 0 || state != "failed" {
			t.Errorf("exit code %d, %d restarts, %s: want 78, and failed for good", code, n, state)
		}
		h.logged(t, `engine: unknown value "gpuu"`)
	})
	t.Run("reload and stop", func(t *testing.T) {
		h.configure(goodConfig)
		h.systemctl("start", "warproute")
		h.forwardsWithin(patience, "the correction")
		h.systemctl("reload", "warproute")
		h.eventually(t, patience, "the unit is active again", func() bool { return h.show("ActiveState") == "active" })
		h.logged(t, "configuration reloaded")
		h.systemctl("stop", "warproute")
		if result := h.show("Result"); result != "success" {
			t.Errorf("stopped: %s", result)
		}
		h.logged(t, "stopped: ")
	})
}
