package e2e

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// frr is FRR's zebra and bgpd. They run as user frr, the owner of the directory of their sockets.
type frr struct {
	ns          *lab.Namespace
	on          cores
	dir         string
	zebra, bgpd *daemon
}

// startFRR starts zebra and bgpd in a namespace, bgpd with a configuration, which vtysh loads as FRR's service does: sessions wait until
// it is complete, unlike with a file of bgpd.
func startFRR(t *testing.T, ns *lab.Namespace, on cores, bgp string) *frr {
	t.Helper()
	dir, err := os.MkdirTemp("", "warproute-frr") // unlike t.TempDir, other users can enter it
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	u, err := user.Lookup("frr")
	if err != nil {
		t.Fatalf("%v: apt-get install frr", err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	for _, f := range []func() error{
		func() error { return os.Chmod(dir, 0o755) },
		func() error { return os.Chown(dir, uid, gid) },
	} {
		require.NoError(t, f())
	}
	f := &frr{ns: ns, on: on, dir: dir}
	for name, text := range map[string]string{"zebra.conf": "", "bgpd.conf": "", "frr.conf": bgp} {
		path := filepath.Join(dir, name)
		if text == "" {
			text = "log stdout warnings\n"
		}
		writeFile(t, path, text)
		require.NoError(t, os.Chown(path, uid, gid))
	}
	f.zebra = f.start(t, "zebra")
	f.zebra.awaitFile(t, filepath.Join(dir, "zserv"))
	f.startBGP(t)
	return f
}

// startBGP starts bgpd.
func (f *frr) startBGP(t *testing.T) {
	t.Helper()
	_ = os.Remove(filepath.Join(f.dir, "bgpd.vty"))
	f.bgpd = f.start(t, "bgpd", "-p", "179")
	f.bgpd.awaitFile(t, filepath.Join(f.dir, "bgpd.vty"))
	must(t, f.ns, "vtysh", "--vty_socket", f.dir, "-f", filepath.Join(f.dir, "frr.conf"))
}

// start starts a daemon of FRR in its own PID namespace, whose init dies with the test: the daemon
// loses its parent death signal when it drops root. A tmpfs takes its crash logs.
func (f *frr) start(t *testing.T, name string, args ...string) *daemon {
	t.Helper()
	args = append([]string{"--pid", "--fork", "--kill-child", "sh", "-c", `mount -t tmpfs tmpfs /var/tmp; "$0" "$@"; exit $?`, "/usr/lib/frr/" + name,
		"-f", filepath.Join(f.dir, name+".conf"), "-i", filepath.Join(f.dir, name+".pid"), "-z", filepath.Join(f.dir, "zserv"),
		"--vty_socket", f.dir, "-P", "0"}, args...)
	return startDaemon(t, f.ns, f.on, exec.Command("unshare", args...))
}

// heardAll reports whether both peers have sent End-of-RIB in the current sessions (RFC 4724, section
// 2), after which stale routes are deleted.
func (f *frr) heardAll(t *testing.T) bool {
	t.Helper()
	for peer, family := range map[string]string{"10.8.0.2": "ipv4", "fd08::2": "ipv6"} {
		state := must(t, f.ns, "vtysh", "--vty_socket", f.dir, "-c", "show bgp "+family+" neighbors "+peer+" graceful-restart")
		if !strings.Contains(state, "End-of-RIB received: Yes") {
			return false
		}
	}
	return true
}
