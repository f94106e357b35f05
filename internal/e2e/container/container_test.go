// Package container tests the image of packaging/container under podman: its commands are those of docs/install.md.
package container

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/privilege"
	"github.com/warproute/warproute/internal/require"
)

const (
	document      = "../../../docs/install.md"
	containerfile = "../../../packaging/container/Containerfile"

	patience = 30 * time.Second
)

// config is that of a gateway, which has an nftables table, with policies that pings do not match.
const config = `ports: [lan0, wan0]
engine: cpu
metrics: {listen: ""}
ipsec:
  sas:
    - {name: a, spi: 0x1000, direction: in, src: 192.0.2.2, dst: 192.0.2.1, suite: null-sha256, auth_key: "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"}
  policies:
    - {direction: in, src: 10.99.0.0/16, dst: 10.98.0.0/16, action: protect, sa: a}
`

// The image runs with the documented capabilities, podman restarts it after a crash, and its removal leaves nothing.
func TestImage(t *testing.T) {
	n, err := lab.Build(lab.VethOptions{}, `
client eth0 10.7.0.2/24 -- router lan0 10.7.0.1/24
router wan0 10.8.0.1/24 -- server eth0 10.8.0.2/24
client route 10.8.0.0/24 10.7.0.1
server route 10.7.0.0/24 10.8.0.1
client sysctl net.ipv4.ip_forward 0`)
	require.NoError(t, err)
	t.Cleanup(n.Close)
	h := newHost(t, n["router"])
	forwards := func(after string) {
		t.Helper()
		took := labtest.Eventually(t, patience, "ping passes after "+after, func() bool {
			_, err := lab.Ping(n["client"], netip.MustParseAddr("10.8.0.2"), lab.PingOptions{Count: 1, Timeout: 200 * time.Millisecond})
			return err == nil
		})
		t.Logf("%v: ping passes after %s", took.Round(10*time.Millisecond), after)
	}

	h.buildImage()
	h.run("mkdir -p /etc/warproute && cat >/etc/warproute/warproute.yaml <<'end'\n" + config + "end\nchmod 600 /etc/warproute/warproute.yaml")
	h.run(startCommands(t))
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := h.try("podman ps --all; podman logs warproute")
			t.Log(log)
		}
	})
	forwards("the start")
	h.checkPrivileges()

	t.Run("crash", func(t *testing.T) {
		before := h.pid()
		h.run("kill -9 " + before)
		forwards("the crash")
		if after := h.pid(); after == before {
			t.Errorf("process %s has not ended", before)
		}
		h.checkPrivileges()
	})
	t.Run("upgrade", func(t *testing.T) {
		before := h.pid()
		if out, err := h.try("podman exec warproute warproute upgrade"); err == nil || !strings.Contains(out, "process 1 of its container") {
			t.Errorf("upgrade: %v: %s", err, out)
		}
		if after := h.pid(); after != before {
			t.Errorf("process %s has become %s", before, after)
		}
		forwards("the refused upgrade")
	})
	t.Run("removal", func(t *testing.T) {
		h.run(strings.ReplaceAll(labtest.Block(t, document, "podman rmi"), "sudo ", ""))
		for what, script := range map[string]string{
			"processes":         "ps -eo stat=,comm= | grep -v -e ^Z -e ' sleep$' -e ' sh$' -e ' ps$' -e ' grep$' || true",
			"containers":        "podman ps --all --quiet",
			"volumes":           "podman volume ls --quiet",
			"images":            "podman images --quiet --filter reference=localhost/warproute",
			"files":             "ls -d /var/lib/warproute /run/warproute 2>/dev/null || true",
			"nftables":          "nft list tables",
			"XDP programs":      "ip -details link | grep xdp || true",
			"queueing programs": "tc filter show dev lan0 ingress",
		} {
			if out := h.run(script); out != "" {
				t.Errorf("%s are left: %s", what, out)
			}
		}
	})
}

// buildImage builds the image: its last stage, with a router that Go of the host has built, on files of the C library.
// (The first stage downloads Debian's packages for minutes.)
func (h *host) buildImage() {
	t := h.t
	t.Helper()
	text, err := os.ReadFile(containerfile)
	require.NoError(t, err)
	at := strings.LastIndex(string(text), "\nFROM $BASE\n")
	if at < 0 {
		t.Fatalf("%s has no last stage", containerfile)
	}
	dir := t.TempDir()
	last := filepath.Join(dir, "Containerfile")
	require.NoError(t, os.WriteFile(last, []byte("ARG BASE"+string(text[at:])), 0o644))
	build := exec.Command("go", "build", "-o", dir, "../../../cmd/warproute")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	h.run(fmt.Sprintf(`cd %s
tar --create --dereference --file base.tar /etc/passwd /etc/group $(ldd warproute | grep -o '/[^ ]*') 2>/dev/null
podman import --quiet base.tar base
podman build --quiet --build-context build=. --build-arg BASE=localhost/base -t warproute -f %s .`, dir, last))
}

// startCommands returns the documented commands, without GPUs, and with the limits of the test, which only those with
// CAP_SYS_RESOURCE can raise.
func startCommands(t *testing.T) string {
	t.Helper()
	ulimit := func(name string, resource int) string {
		var limit unix.Rlimit
		require.NoError(t, unix.Getrlimit(resource, &limit))
		return fmt.Sprintf("--ulimit %s=%d:%[2]d", name, int64(limit.Max))
	}
	text := labtest.Block(t, document, "podman run --detach")
	for old, replacement := range map[string]string{
		" --device nvidia.com/gpu=all": "",
		"--ulimit memlock=-1:-1":       strings.Join([]string{ulimit("memlock", unix.RLIMIT_MEMLOCK), ulimit("nofile", unix.RLIMIT_NOFILE), ulimit("nproc", unix.RLIMIT_NPROC)}, " "),
	} {
		if !strings.Contains(text, old) {
			t.Fatalf("%s has no %q in\n%s", document, old, text)
		}
		text = strings.ReplaceAll(text, old, replacement)
	}
	return strings.ReplaceAll(text, "sudo ", "")
}

// pid returns the process of the router.
func (h *host) pid() string {
	h.t.Helper()
	return h.run("podman inspect --format '{{.State.Pid}}' warproute")
}

// checkPrivileges fails unless the router has the documented capabilities and filters.
func (h *host) checkPrivileges() {
	h.t.Helper()
	want := uint64(0)
	for _, c := range privilege.Kept {
		want |= 1 << c.Bit
	}
	set := fmt.Sprintf("%016x", want)
	status := h.run("cat /proc/" + h.pid() + "/status")
	for _, line := range []string{"CapPrm:\t" + set, "CapEff:\t" + set, "CapBnd:\t" + set, "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(status, line) {
			h.t.Errorf("the status has no line %q:\n%s", line, status)
		}
	}
}
