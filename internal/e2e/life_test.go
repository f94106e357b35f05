package e2e

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

var servers = []string{"10.8.0.2", "fd08::2"}

func TestFirstPacketsWaitForTheirNeighbor(t *testing.T) {
	top, _ := startTwoPorts(t)
	for _, a := range servers { // no neighbor is resolved, and no ping is lost
		if res, err := lab.Ping(top.Client, netip.MustParseAddr(a), lab.PingOptions{Count: 3}); err != nil {
			t.Errorf("%s: %v (%+v)", a, err, res)
		}
	}
}

func TestMultiQueuePorts(t *testing.T) {
	top := newTopology(t, lab.VethOptions{Queues: 2})
	r := startRouter(t, top.Router, "--port", lab.LAN, "--port", lab.WAN)
	if e, err := r.engine(); err != nil || e.Workers != 2 {
		t.Fatalf("%d workers on two queues (%v)", e.Workers, err)
	}
	for _, a := range servers {
		addr := netip.MustParseAddr(a)
		checkPing(t, top.Client, addr, lab.PingOptions{})
		checkTransfer(t, top.Client, top.Server, addr, 8<<20, 20*time.Second)
	}
}

// After SIGTERM under load, the account includes every received frame: transmitted, dropped, or punted to
// Linux.
func TestEveryFrameIsAccountedFor(t *testing.T) {
	top := newTopology(t, lab.VethOptions{})
	before := received(t, top)
	r := startRouter(t, top.Router, "--port", lab.LAN, "--port", lab.WAN)
	l := startLoad(t, top, 100_000, "10.8.0.2", "172.16.0.1", "fd08::2", "10.7.0.1", "fd07::1")
	time.Sleep(time.Second)
	b := r.Stop()
	l.end()
	if b.Received == 0 || b.Transmitted == 0 || b.Dropped == 0 || b.Linux == 0 {
		t.Errorf("not every way was taken: %+v", b)
	}
	if b.Received != b.Transmitted+b.Dropped {
		t.Errorf("%d received, but %d transmitted and %d dropped", b.Received, b.Transmitted, b.Dropped)
	}
	if b.Arrived != b.Linux+b.Lost+b.Received {
		t.Errorf("%d arrived, but %d handed to Linux, %d lost and %d received", b.Arrived, b.Linux, b.Lost, b.Received)
	}
	// The interfaces also count frames before the start and after the stop of the router.
	if n := received(t, top) - before; b.Arrived > n {
		t.Errorf("the router accounts for %d frames of %d", b.Arrived, n)
	}
}

// received returns the number of frames that the router's links have received.
func received(t *testing.T, top *lab.Topology) (n uint64) {
	t.Helper()
	for _, name := range []string{lab.LAN, lab.WAN} {
		l, err := top.Router.Link(name)
		require.NoError(t, err)
		n += l.Attrs().Statistics.RxPackets
	}
	return n
}

func TestUsageErrorsHaveHints(t *testing.T) {
	top := newTopology(t, lab.VethOptions{})
	file := filepath.Join(t.TempDir(), "router.yaml")
	write := func(s string) {
		writeFile(t, file, s)
	}
	for _, c := range []struct {
		name, config string
		args         []string
		code         int
		want         string
	}{
		{"no ports", "", []string{"run"}, 64, "name two by --port"},
		{"no such interface", "", []string{"run", "--port", "lan7", "--port", lab.WAN}, 75, `did you mean "lan0"?`},
		{"a port twice", "", []string{"run", "--port", lab.LAN, "--port", lab.LAN}, 78, `"lan0" is already a port`},
		{"unknown key", "ports:\n  - interfce: lan0\n", []string{"run", "--config", file}, 78, file + ":2:5: "},
		{"wrong type", "ports:\n  - interface: lan0\nworkers: many\n", []string{"run", "--config", file}, 78, file + ":3:10: "},
		{"missing interface in a file", "ports:\n  - interface: lan0\n  - interface: wan7\n", []string{"run", "--config", file}, 75, file + ":3:16: "},
		{"no GPU", "", []string{"run", "--engine", "gpu", "--port", lab.LAN, "--port", lab.WAN}, 1, "gpu"},
		{"nobody to ask", "", []string{"show", "ports", "--socket", filepath.Join(t.TempDir(), "none")}, 1, "warproute run"},
		{"unknown flag", "", []string{"run", "--prot", "lan0"}, 64, "--prot"},
	} {
		write(c.config)
		cmd := exec.Command(program, c.args...)
		out := &labtest.Output{}
		cmd.Stdout, cmd.Stderr = out, out
		p, err := top.Router.Start(cmd)
		require.NoError(t, err)
		select {
		case <-p.Done():
		case <-time.After(5 * time.Second):
			t.Errorf("%s: still running", c.name)
		}
		_ = p.Stop(time.Second)
		if got := cmd.ProcessState.ExitCode(); got != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: exit %d, want %d, saying %q; it says:\n%s", c.name, got, c.code, c.want, out)
		}
	}
}

func TestDemo(t *testing.T) {
	run := func(args ...string) (string, int) {
		cmd := exec.Command(benchProgram, append([]string{"demo"}, args...)...)
		cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if _, exited := err.(*exec.ExitError); err != nil && !exited {
			t.Fatal(err)
		}
		if left, _ := filepath.Glob(filepath.Join(strings.TrimPrefix(cmd.Env[len(cmd.Env)-1], "TMPDIR="), "*")); len(left) > 0 {
			t.Errorf("demo %v leaves %v behind", args, left)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	before := must(t, newTopology(t, lab.VethOptions{}).Client, "ip", "netns", "list")
	out, code := run("--load", "500ms")
	if code != 0 || !strings.Contains(out, "everything went through") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	for _, want := range []string{"ping 10.8.0.2", "ping fd08::2", "TCP over IPv4", "TCP over IPv6", "64 bytes, full rate", "p99.9", "stopped: "} {
		if !strings.Contains(out, want) {
			t.Errorf("the demo says nothing of %q:\n%s", want, out)
		}
	}
	if out, code := run("--engine", "gpu"); code != 1 {
		t.Errorf("a demo whose router does not start: exit %d:\n%s", code, out)
	}
	if after := must(t, newTopology(t, lab.VethOptions{}).Client, "ip", "netns", "list"); after != before {
		t.Errorf("namespaces are left: %s", after)
	}
}

// With napi: thread the router does the ports' receive work on its own core, and
// gives it back when it stops.
func TestThreadedNAPI(t *testing.T) {
	top := newTopology(t, lab.VethOptions{})
	dir := t.TempDir()
	file := filepath.Join(dir, "router.yaml")
	config := "ports: [{interface: lan0}, {interface: wan0}]\nnapi: thread\n"
	writeFile(t, file, config)
	r := startRouter(t, top.Router, "--config", file)
	for _, a := range servers {
		addr := netip.MustParseAddr(a)
		checkPing(t, top.Client, addr, lab.PingOptions{})
		checkTransfer(t, top.Client, top.Server, addr, 8<<20, 20*time.Second)
	}
	threaded := func() string {
		return strings.Join(strings.Fields(must(t, top.Router, "cat", "/sys/class/net/lan0/threaded", "/sys/class/net/wan0/threaded")), " ")
	}
	if got := threaded(); got != "1 1" {
		t.Errorf("threaded while the router runs: %s", got)
	}
	r.Stop()
	if got := threaded(); got != "0 0" {
		t.Errorf("threaded after it stopped: %s", got)
	}
}

// Where a router runs, doctor says that it does, and that no other would start.
func TestDoctorReportsARunningRouter(t *testing.T) {
	top, _ := startTwoPorts(t)
	out, err := top.Router.Run(program, "doctor", "--port", lab.LAN)
	if err == nil || !strings.Contains(out, "a running router uses the port, in native mode") || !strings.Contains(out, "the router would not start") {
		t.Errorf("%v\n%s", err, out)
	}
}
