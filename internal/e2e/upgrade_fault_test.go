package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// A binary that cannot replace the router leaves it as it is, or has the old version start again. The reason is
// reported, and the next upgrade works.
func TestFailedUpgrades(t *testing.T) {
	top := newTopology(t, lab.VethOptions{})
	next, err := nextProgram()
	require.NoError(t, err)
	config := filepath.Join(t.TempDir(), "warproute.yaml")
	const good = "ports: [{interface: lan0}, {interface: wan0}]\nmetrics: {listen: \"\"}\nengine: cpu\n"
	writeFile(t, config, good)
	u := startUpgrades(t, top.Router, "--config", config)
	faulty := filepath.Join(t.TempDir(), "faulty")
	if out, err := exec.Command("go", "build", "-o", faulty, "./testdata/faultyrouter").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	mustPing(t, top.Client, lab.Server4.Addr(), lab.PingOptions{Count: 3})
	version := func() string {
		var v status.Version
		require.NoError(t, u.Get("/version", &v))
		return v.Version
	}
	before := version()

	fault := func(name string) func() {
		return func() {
			writeFile(t, filepath.Join(filepath.Dir(u.path), "fault"), name)
			u.install(t, faulty)
		}
	}
	foreign := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 64)...)
	foreign[16], foreign[18] = 2, 0xf3 // an executable for RISC-V
	for _, c := range []struct {
		name    string
		install func()
		result  status.UpgradeResult
		want    string
	}{
		{"garbage", func() { u.installBytes(t, []byte("garbage")) }, status.UpgradeRefused, "exec format error"},
		{"another architecture", func() { u.installBytes(t, foreign) }, status.UpgradeRefused, "exec format error"},
		{"no file", func() { require.NoError(t, os.Remove(u.path)) }, status.UpgradeRefused, "no such file"},
		{"not executable", func() { u.install(t, next); require.NoError(t, os.Chmod(u.path, 0o644)) }, status.UpgradeRefused, "permission denied"},
		{"without hot upgrade", func() { u.installBytes(t, []byte("#!/bin/sh\nexit 64\n")) }, status.UpgradeRefused, "exit code 64 before it was ready"},
		{"wrong configuration", func() { u.install(t, next); writeFile(t, config, "ports: [{interface: lan0}]\nengin: cpu\n") }, status.UpgradeRefused, "engin"},
		{"another port", func() { writeFile(t, config, "ports: [{interface: lan0}]\nmetrics: {listen: \"\"}\n") }, status.UpgradeRefused, "the configuration selects 1 of them: run `warproute reload` first"},
		{"another gateway", func() { writeFile(t, config, good+"ipsec: {source: xfrm}\n") }, status.UpgradeRefused, `ipsec.source is "xfrm", and "" in the running router`},
		{"crash at the start", fault("crash at the start"), status.UpgradeRefused, "exit code 2 before it was ready"},
		{"failure while it prepares", fault("fail while it prepares"), status.UpgradeRefused, "no memory is left"},
		{"crash while it prepares", fault("crash while it prepares"), status.UpgradeRefused, "exit code 2 before it was ready"},
		{"hang while it prepares", fault("hang while it prepares"), status.UpgradeRefused, "was not ready within 500ms (--timeout)"},
		{"crash when it is ready", fault("crash when it is ready"), status.UpgradeRestarted, "failed after this one had stopped"},
		{"failure with the ports", fault("fail with the ports"), status.UpgradeRestarted, "no memory is left"},
		{"crash with the ports", fault("crash with the ports"), status.UpgradeRestarted, "failed after this one had stopped"},
		{"hang with the ports", fault("hang with the ports"), status.UpgradeRestarted, "did not forward within 3s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.install()
			var args []string
			if strings.HasPrefix(c.name, "hang while") {
				args = []string{"--timeout", "500ms"}
			}
			start := time.Now()
			r, _ := u.upgrade(t, args...)
			took := time.Since(start)
			writeFile(t, config, good)
			if r.Result != c.result || !strings.Contains(r.Error, c.want) {
				t.Errorf("%+v\nwant %s because of %q", r, c.result, c.want)
			}
			u.runs(t, before)
			if took > 15*time.Second {
				t.Errorf("it took %v", took)
			}
			if _, err := lab.Ping(top.Client, lab.Server4.Addr(), lab.PingOptions{Count: 3}); err != nil {
				t.Errorf("the router does not forward: %v", err)
			}
			if n := len(xdpPrograms(t, top.Router)); n != 2 {
				t.Errorf("%d ports have an XDP program", n)
			}
		})
	}
	u.upgraded(t, next, nextVersion)
	mustPing(t, top.Client, lab.Server4.Addr(), lab.PingOptions{Count: 3})
	u.end()
	if n := len(xdpPrograms(t, top.Router)); n != 0 {
		t.Errorf("%d ports keep an XDP program", n)
	}
}
