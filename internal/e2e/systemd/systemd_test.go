// Package systemd tests contrib/warproute.service under systemd: whatever ends the router,
// but a wrong configuration, it forwards again within seconds.
//
// The unit needs a kernel and a manager of its own, so all of it runs in a virtual machine.
package systemd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab/guest"
)

// Set by TestUnit in the virtual machine for the test binary there: the program under test,
// and the unit.
const (
	inGuest = "SYSTEMD_TEST_PROGRAM"
	unitVar = "SYSTEMD_TEST_UNIT"
)

func TestUnit(t *testing.T) {
	if program := os.Getenv(inGuest); program != "" {
		testUnit(t, program, os.Getenv(unitVar))
		return
	}
	if testing.Short() {
		t.Skip("-short: boots a virtual machine: 40 s")
	}
	unit, err := filepath.Abs("../../../contrib/warproute.service")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program, test := filepath.Join(dir, "warproute"), filepath.Join(dir, "systemd.test")
	if err := guest.Build(program, "github.com/warproute/warproute/cmd/warproute"); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "test", "-c", "-o", test, ".") // a guest has no room for the race detector
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the test for the guest: %v: %s", err, out)
	}
	g, err := guest.StartVM("../../../out/kernel") // where the Makefile has it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	if _, err := g.Run("modprobe", "veth"); err != nil {
		t.Fatal(err)
	}
	// In the background, as it may take longer than a command of a guest's.
	if _, err := g.Run("sh", "-c", fmt.Sprintf("cd / && (%s=%s %s=%s GOMAXPROCS=4 %s -test.run '^TestUnit$' -test.v -test.timeout 200s; echo ended) >/run/output 2>&1 &",
		inGuest, program, unitVar, unit, test)); err != nil {
		t.Fatal(err)
	}
	var out string
	for !strings.HasSuffix(out, "ended\n") {
		time.Sleep(500 * time.Millisecond)
		if out, err = g.Run("cat", "/run/output"); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(out, "--- PASS: TestUnit (") {
		t.Fatal(out)
	}
	t.Log(out)
}

// patience is for a guest on a busy machine: by itself, each case takes some seconds.
const patience = 30 * time.Second

func testUnit(t *testing.T, program, unit string) {
	h := newHost(t, program, unit)
	h.systemctl("start", "warproute")
	h.forwardsWithin(patience, "the start")

	t.Run("SIGQUIT", func(t *testing.T) {
		h.restarts(t, func() { h.systemctl("kill", "--signal=QUIT", "warproute") })
		h.logged(t, "SIGQUIT: quit", "goroutine 1 ") // the stacks are kept
	})
	t.Run("SIGKILL", func(t *testing.T) {
		h.restarts(t, func() { h.systemctl("kill", "--signal=KILL", "warproute") })
	})
	t.Run("out of memory", func(t *testing.T) {
		group := "/sys/fs/cgroup" + h.show("ControlGroup")
		h.restarts(t, func() {
			// Less than it has: the kernel kills it.
			if err := os.WriteFile(filepath.Join(group, "memory.max"), []byte("1M"), 0); err != nil {
				t.Fatal(err)
			}
		})
		h.logged(t, "oom-kill")
	})
	t.Run("stuck", func(t *testing.T) {
		h.restarts(t, func() { h.systemctl("kill", "--signal=STOP", "warproute") })
		h.logged(t, "Watchdog timeout", "SIGABRT: abort")
	})
	t.Run("a port that comes late", func(t *testing.T) {
		h.systemctl("stop", "warproute")
		h.deleteLAN()
		h.systemctl("start", "--no-block", "warproute")
		h.eventually(t, patience, "it is started again and again", func() bool { return h.number("NRestarts") >= 2 })
		h.logged(t, `this host has no interface "lan0"`)
		if limit := h.show("StartLimitIntervalUSec"); limit != "0" {
			t.Errorf("restarts end when there are too many within %s", limit)
		}
		h.addLAN()
		h.forwardsWithin(patience, "the port came")
	})
	t.Run("forwarding of Linux's until after the start", func(t *testing.T) {
		h.systemctl("stop", "warproute")
		h.forwarding("1")
		h.systemctl("start", "--no-block", "warproute")
		time.Sleep(2 * time.Second)
		h.forwarding("0")
		h.forwardsWithin(patience, "forwarding was off")
	})
	t.Run("a wrong configuration", func(t *testing.T) {
		h.configure("ports: [{interface: lan0}]\nengine: gpuu\n")
		_ = h.try("restart", "warproute")
		h.eventually(t, patience, "it has failed", func() bool { return h.show("ActiveState") == "failed" })
		time.Sleep(1500 * time.Millisecond) // longer than RestartSec
		if code, n, state := h.number("ExecMainStatus"), h.number("NRestarts"), h.show("ActiveState"); code != 78 || n != 0 || state != "failed" {
			t.Errorf("exit code %d, %d restarts, %s: want 78, and failed for good", code, n, state)
		}
		h.logged(t, `engine: there is no "gpuu"`)
	})
	t.Run("reload and stop", func(t *testing.T) {
		h.configure(goodConfig)
		h.systemctl("start", "warproute")
		h.forwardsWithin(patience, "the configuration was right")
		h.systemctl("reload", "warproute")
		h.eventually(t, patience, "it is active again", func() bool { return h.show("ActiveState") == "active" })
		h.logged(t, "the configuration was reloaded")
		h.systemctl("stop", "warproute")
		if result := h.show("Result"); result != "success" {
			t.Errorf("stopped: %s", result)
		}
		h.logged(t, "stopped: ")
	})
}
