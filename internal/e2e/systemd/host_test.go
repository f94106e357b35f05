package systemd

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// goodConfig has a policy, which pings do not match.
const goodConfig = `ports: [{interface: lan0}, {interface: wan0}]
engine: cpu
metrics: {listen: ""}
exit: {linux: on}
ipsec:
  sas:
    - {name: a, spi: 0x1000, direction: in, src: 192.0.2.2, dst: 192.0.2.1, suite: null-sha256, auth_key: "` + key + `"}
  policies:
    - {direction: in, src: 10.99.0.0/16, dst: 10.98.0.0/16, action: protect, sa: a}
`

const key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

// host is a machine with systemd that runs the router, between a client and a server.
type host struct {
	t              *testing.T
	network        lab.Network
	client, router *lab.Namespace
	log            string   // file of the router's log
	enter          []string // nsenter arguments of a command beside systemd
}

const runDir = "/run/systemd-test"

// newHost starts systemd on a machine whose program and unit are installed by a function.
func newHost(t *testing.T, install func(*host)) *host {
	t.Helper()
	made, err := lab.Build(lab.VethOptions{}, `
router wan0 10.8.0.1/24 -- server eth0 10.8.0.2/24
server route 10.7.0.0/24 10.8.0.1
client sysctl net.ipv4.ip_forward 0`)
	h := &host{t: t, log: filepath.Join(runDir, "log")}
	h.must(err)
	t.Cleanup(made.Close)
	h.network, h.client, h.router = made, made["client"], made["router"]
	h.addLAN()

	h.must(os.MkdirAll(runDir, 0o755))
	h.configure(goodConfig)
	units := filepath.Join(runDir, "units")
	h.must(os.MkdirAll(units, 0o755))
	for _, name := range []string{"default", "sysinit", "basic", "shutdown", "network-pre", "multi-user"} {
		h.must(os.WriteFile(filepath.Join(units, name+".target"), []byte("[Unit]\nDefaultDependencies=no\n"), 0o644))
	}
	h.must(os.Chmod("/dev/net/tun", 0o666)) // as udev does
	h.startSystemd()
	install(h)
	return h
}

// link has systemd load the router's unit from a file, with a shorter watchdog limit and a log file in place
// of the journal.
func (h *host) link(unit string) {
	h.t.Helper()
	name := filepath.Join(runDir, "units", "warproute.service")
	h.must(os.Symlink(unit, name))
	h.must(os.MkdirAll(name+".d", 0o755))
	h.must(os.WriteFile(filepath.Join(name+".d", "test.conf"), fmt.Appendf(nil, "[Service]\nWatchdogSec=5\nStandardOutput=append:%[1]s\nStandardError=append:%[1]s\n", h.log), 0o644))
}

// startSystemd starts systemd in the router's network namespace, as init of a PID namespace. Mounts are shared, as on a host: else
// systemd's child processes cannot mount credentials for it.
func (h *host) startSystemd() {
	h.t.Helper()
	script := fmt.Sprintf("mount --make-rshared / && mount -t cgroup2 cgroup2 /sys/fs/cgroup && mount -t bpf bpf /sys/fs/bpf && exec env container=guest SYSTEMD_UNIT_PATH=%[1]s/units SYSTEMD_GENERATOR_PATH=%[1]s/none SYSTEMD_ENVIRONMENT_GENERATOR_PATH=%[1]s/none "+
		"/lib/systemd/systemd --system --log-target=kmsg --log-level=info --show-status=no", runDir)
	h.must(os.Mkdir(filepath.Join(runDir, "none"), 0o755))
	h.must(os.WriteFile("/proc/sys/kernel/printk_devkmsg", []byte("on\n"), 0)) // without rate limit
	p, err := h.router.Start(exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script))
	h.must(err)
	h.t.Cleanup(func() {
		_ = p.Signal(os.Kill)
		if h.t.Failed() {
			text := h.written()
			h.t.Logf("systemd and the router wrote:\n%s", text[max(0, len(text)-20_000):])
		}
	})
	h.run("mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup")
	h.eventually(h.t, patience, "systemd runs", func() bool {
		child, _ := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", p.Pid()))
		h.enter = []string{"--target", strings.TrimSpace(string(child)), "--pid", "--mount", "--net", "--root"}
		return h.try("show") == nil
	})
}

func (h *host) must(err error) {
	h.t.Helper()
	require.NoError(h.t, err)
}

func (h *host) run(name string, args ...string) string {
	h.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// beside runs a command beside systemd.
func (h *host) beside(name string, args ...string) string {
	h.t.Helper()
	return h.run("nsenter", slices.Concat(h.enter, []string{name}, args)...)
}

func (h *host) systemctl(args ...string) string {
	h.t.Helper()
	return h.beside("systemctl", args...)
}

func (h *host) try(args ...string) error {
	return exec.Command("nsenter", slices.Concat(h.enter, []string{"systemctl"}, args)...).Run()
}

// written returns the log of the router and systemd's lines of the kernel log.
func (h *host) written() string {
	text, _ := os.ReadFile(h.log)
	kernel, _ := exec.Command("dmesg").Output()
	var b strings.Builder
	for line := range strings.Lines(string(kernel)) {
		if strings.Contains(line, " systemd[") {
			b.WriteString(line)
		}
	}
	return string(text) + b.String()
}

// show returns a property of the router's unit.
func (h *host) show(property string) string {
	h.t.Helper()
	return h.systemctl("show", "--property="+property, "--value", "warproute")
}

func (h *host) number(property string) int {
	h.t.Helper()
	n, err := strconv.Atoi(h.show(property))
	h.must(err)
	return n
}

func (h *host) configure(text string) {
	h.t.Helper()
	h.must(os.WriteFile("/etc/warproute.yaml", []byte(text), 0o600))
	if _, err := user.Lookup("warproute"); err == nil {
		h.run("chown", "warproute:", "/etc/warproute.yaml")
	}
}

// addLAN creates the port that one case deletes.
func (h *host) addLAN() {
	h.t.Helper()
	h.must(h.network.Add(lab.VethOptions{}, `
client eth0 10.7.0.2/24 -- router lan0 10.7.0.1/24
client route 10.8.0.0/24 10.7.0.1`))
}

func (h *host) deleteLAN() {
	h.t.Helper()
	_, err := h.client.Run("ip", "link", "del", "eth0")
	h.must(err)
}

// restarts crashes the router and waits until it forwards again.
func (h *host) restarts(t *testing.T, crash func()) {
	t.Helper()
	before := h.number("NRestarts")
	crash()
	h.eventually(t, patience, "systemd restarts it", func() bool { return h.number("NRestarts") > before })
	h.forwardsWithin(patience, "the crash")
}

// forwardsWithin waits until a ping passes the router.
func (h *host) forwardsWithin(limit time.Duration, after string) {
	h.t.Helper()
	h.eventually(h.t, limit, "ping passes after "+after, func() bool {
		_, err := lab.Ping(h.client, netip.MustParseAddr("10.8.0.2"), lab.PingOptions{Count: 1, Timeout: 200 * time.Millisecond})
		return err == nil
	})
}

// logged waits until the logs contain texts.
func (h *host) logged(t *testing.T, wants ...string) {
	t.Helper()
	for _, want := range wants {
		h.eventually(t, patience, "the log has "+want, func() bool {
			return strings.Contains(h.written(), want)
		})
	}
}

func (h *host) eventually(t *testing.T, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	start := time.Now()
	for !holds() {
		if time.Since(start) > limit {
			t.Fatalf("after %v: not yet: %s", limit, what)
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Logf("%v: %s", time.Since(start).Round(10*time.Millisecond), what)
}
