package systemd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab/guest"
	"github.com/warproute/warproute/internal/require"
)

// packages has the packages of two versions. Guests see the host's files.
const packages = "../../../out/test/packages"

var versions = [2]string{"0.2.0", "0.3.0"}

var packagesOnce sync.Once

// The package installs a unit that runs the router, which returns within a second after a crash; a new version
// replaces a running router; and removal leaves nothing behind.
func TestPackage(t *testing.T) {
	buildPackages(t)
	guest.InVM(t, 200*time.Second, []string{"veth", "tun"}, testPackage)
}

// buildPackages builds the packages of both versions, once for all tests, and not in a guest.
func buildPackages(t *testing.T) {
	t.Helper()
	if guest.Inside() || testing.Short() {
		return
	}
	packagesOnce.Do(func() {
		for _, version := range versions {
			buildPackage(t, version)
		}
	})
}

// buildPackage builds a package with the flags of the tests, whose compiled packages it shares.
func buildPackage(t *testing.T, version string) {
	t.Helper()
	c := exec.Command("make", "packages", "PROGRAMS=warproute", "PROFILE=off", "TRIMPATH=", "VERSION="+version, "BIN=out/test")
	c.Dir = "../../.."
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(c.Args, " "), err, out)
	}
	file := fmt.Sprintf("warproute_%s_amd64.deb", version)
	require.NoError(t, os.MkdirAll(packages+"-kept", 0o755))
	require.NoError(t, os.Rename(filepath.Join(packages, file), filepath.Join(packages+"-kept", file)))
}

func testPackage(t *testing.T, _ string) {
	var before map[string]bool
	h := newHost(t, func(h *host) {
		before = files(t)
		// As a router of root left it.
		h.must(os.MkdirAll("/var/lib/warproute", 0o700))
		h.must(os.WriteFile("/var/lib/warproute/note", nil, 0o600))
		h.link("/usr/lib/systemd/system/warproute.service")
		h.beside("dpkg", "--install", deb(t, versions[0]))
	})
	if state := h.show("ActiveState"); state != "inactive" {
		t.Errorf("after the installation: %s, want inactive", state)
	}
	h.systemctl("enable", "--now", "warproute")
	h.forwardsWithin(patience, "the start")
	h.version(versions[0])
	for _, path := range []string{"/etc/warproute.yaml", "/var/lib/warproute", "/var/lib/warproute/note"} {
		if owner := h.run("stat", "--format=%U:%G", path); owner != "warproute:warproute" {
			t.Errorf("%s is owned by %s", path, owner)
		}
	}

	t.Run("crash", func(t *testing.T) {
		h.restarts(t, func() { h.systemctl("kill", "--signal=KILL", "warproute") })
	})
	t.Run("upgrade", func(t *testing.T) {
		before := h.show("NRestarts")
		h.beside("dpkg", "--install", deb(t, versions[1]))
		h.forwardsWithin(patience, "the upgrade")
		h.version(versions[1])
		h.logged(t, "ports and SAs handed over", "ports and SAs taken over")
		if n := h.show("NRestarts"); n != before {
			t.Errorf("%s restarts, %s before the upgrade", n, before)
		}
		h.restarts(t, func() { h.systemctl("kill", "--signal=KILL", "warproute") }) // systemd watches the new process
		h.version(versions[1])
	})
	t.Run("removal", func(t *testing.T) {
		h.beside("dpkg", "--purge", "warproute")
		if state := h.show("ActiveState"); state != "inactive" && state != "failed" {
			t.Errorf("after the removal: %s", state)
		}
		for name := range files(t) {
			if !before[name] {
				t.Errorf("left behind: %s", name)
			}
		}
		for _, port := range []string{"lan0", "wan0"} {
			if link, err := h.router.Run("ip", "link", "show", port); err != nil || strings.Contains(link, "xdp") {
				t.Errorf("%s after the removal: %v\n%s", port, err, link)
			}
		}
		if tables, err := h.router.Run("nft", "list", "tables"); err != nil || strings.Contains(tables, "warproute") {
			t.Errorf("nftables after the removal: %v\n%s", err, tables)
		}
	})
}

func deb(t *testing.T, version string) string {
	t.Helper()
	name, err := filepath.Abs(fmt.Sprintf("%s-kept/warproute_%s_amd64.deb", packages, version))
	require.NoError(t, err)
	return name
}

// version checks which version runs.
func (h *host) version(want string) {
	h.t.Helper()
	exe := h.beside("readlink", "/proc/"+h.show("MainPID")+"/exe")
	if out := h.run("/usr/bin/warproute", "version"); !strings.HasSuffix(exe, "/usr/bin/warproute") || !strings.Contains(out, "warproute "+want+" (") {
		h.t.Errorf("%s runs, and says:\n%s", exe, out)
	}
}

// files returns the files that a package, a service or its user could leave.
func files(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, dir := range []string{"/etc", "/usr/bin", "/usr/lib/systemd", "/usr/lib/sysusers.d", "/usr/share/doc", "/usr/share/man", "/usr/share/zsh",
		"/usr/share/fish", "/usr/share/bash-completion", "/var/lib", "/run"} {
		_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err == nil && strings.Contains(filepath.Base(path), "warproute") && !strings.HasPrefix(path, runDir) && !strings.HasPrefix(path, "/var/lib/dpkg") {
				found[path] = true
			}
			return nil
		})
	}
	delete(found, "/etc/warproute.yaml") // the administrator's
	return found
}
