// Package e2e tests the warproute program as a process between namespaces, with real packets.
//
// Linux's own forwarding is off in every router, so that a packet that crosses proves the
// dataplane.
package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// program and benchProgram are the programs under test, built with the race detector if the tests are.
//
// Tests that wait for others more than they work, and measure no time, run two at a time at the end
// (t.Parallel, make test). None of them
// upgrades a router: startUpgrades changes program.
var program, benchProgram string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "warproute-e2e")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		program, benchProgram = filepath.Join(dir, "warproute"), filepath.Join(dir, "warproute-bench")
		build := exec.Command("go", append(append([]string{"build"}, buildFlags...), "-o", dir, "../../cmd/...")...)
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %v\n%s", build, err, out)
			return 1
		}
		// By default the race detector sleeps for a second when a program exits.
		_ = os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0")
		return m.Run()
	}())
}

// build builds a network that ends with the test.
func build(t *testing.T, opts lab.VethOptions, text string) lab.Network {
	t.Helper()
	n, err := lab.Build(opts, text)
	require.NoError(t, err)
	t.Cleanup(n.Close)
	return n
}

func newTopology(t *testing.T, opts lab.VethOptions) *lab.Topology {
	t.Helper()
	top, err := lab.NewTopology(opts)
	require.NoError(t, err)
	t.Cleanup(top.Close)
	return top
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func sysctl(t *testing.T, ns *lab.Namespace, name, value string) {
	t.Helper()
	require.NoError(t, ns.Sysctl(name, value))
}

func macOf(t *testing.T, ns *lab.Namespace, link string) net.HardwareAddr {
	t.Helper()
	mac, err := ns.MAC(link)
	require.NoError(t, err)
	return mac
}

func mustPing(t *testing.T, from *lab.Namespace, to netip.Addr, opts lab.PingOptions) {
	t.Helper()
	if _, err := lab.Ping(from, to, opts); err != nil {
		t.Fatal(err)
	}
}

func checkPing(t *testing.T, from *lab.Namespace, to netip.Addr, opts lab.PingOptions) {
	t.Helper()
	if _, err := lab.Ping(from, to, opts); err != nil {
		t.Error(err)
	}
}

func checkTransfer(t *testing.T, from, to *lab.Namespace, addr netip.Addr, bytes int64, timeout time.Duration) {
	t.Helper()
	if _, err := lab.Transfer(from, to, addr, bytes, timeout); err != nil {
		t.Error(err)
	}
}

var must, ip, eventually = labtest.Run, labtest.IP, labtest.Eventually

// nstat returns a counter of nstat(8).
func nstat(t *testing.T, ns *lab.Namespace, name string) int {
	t.Helper()
	f := strings.Fields(must(t, ns, "nstat", "-asz", name))
	i := slices.Index(f, name)
	if i < 0 || i+1 == len(f) {
		t.Fatalf("nstat has no %s: %v", name, f)
	}
	n, err := strconv.Atoi(f[i+1])
	require.NoError(t, err)
	return n
}

// kill ends a process by SIGKILL.
func kill(t *testing.T, p *lab.Process) {
	t.Helper()
	require.NoError(t, p.Signal(unix.SIGKILL))
	<-p.Done()
}
