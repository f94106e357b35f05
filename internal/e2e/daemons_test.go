package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// Routing daemons run as processes in a namespace, with their files in a directory. Package lab
// kills them when the test process ends.

// daemon is a process of a routing suite.
type daemon struct {
	*lab.Process
	out *labtest.Output
}

// cores selects the cores of daemons.
type cores bool

// Under load, daemons run on the first core only: a daemon in the kernel can occupy its core for
// milliseconds, and the router's worker has the last core.
const (
	anyCore   cores = false
	firstCore cores = true
)

func startDaemon(t *testing.T, ns *lab.Namespace, on cores, cmd *exec.Cmd) *daemon {
	t.Helper()
	if on == firstCore {
		cmd = exec.Command("taskset", append([]string{"-c", "0"}, cmd.Args...)...)
	}
	d := &daemon{out: &labtest.Output{}}
	cmd.Stdout, cmd.Stderr = d.out, d.out
	var err error
	d.Process, err = ns.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = d.Process.Stop(5 * time.Second)
		if t.Failed() {
			t.Logf("%s wrote:\n%s", cmd.Args, d.out)
		}
	})
	return d
}

// awaitFile waits until a daemon has created a file, such as its socket.
func (d *daemon) awaitFile(t *testing.T, path string) {
	t.Helper()
	eventually(t, 10*time.Second, path+" appears", func() bool {
		select {
		case <-d.Done():
			t.Fatalf("the daemon ended:\n%s", d.out)
		default:
		}
		_, err := os.Stat(path)
		return err == nil
	})
}

// bird is a BIRD process with the directory of its configuration.
type bird struct {
	*daemon
	ns  *lab.Namespace
	dir string
}

// startBird starts BIRD in a namespace with a configuration. The flag "-R" announces a graceful
// restart with preserved forwarding state (RFC 4724, section 3).
func startBird(t *testing.T, ns *lab.Namespace, on cores, dir, config string, flags ...string) *bird {
	t.Helper()
	writeFile(t, filepath.Join(dir, "bird.conf"), "log stderr all;\n"+config)
	socket := filepath.Join(dir, "bird.ctl")
	_ = os.Remove(socket) // of a killed process
	cmd := exec.Command("bird", append([]string{"-f", "-c", filepath.Join(dir, "bird.conf"), "-s", socket}, flags...)...)
	b := &bird{daemon: startDaemon(t, ns, on, cmd), ns: ns, dir: dir}
	b.awaitFile(t, socket)
	return b
}

// do runs a command of birdc.
func (b *bird) do(t *testing.T, command string) string {
	t.Helper()
	return must(t, b.ns, "birdc", "-s", filepath.Join(b.dir, "bird.ctl"), command)
}

// established reports whether both sessions are up.
func (b *bird) established(t *testing.T) bool {
	t.Helper()
	return strings.Count(b.do(t, "show protocols"), "Established") == 2
}

// ipBatch runs `ip` commands in a namespace.
func ipBatch(t *testing.T, ns *lab.Namespace, lines ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "batch")
	writeFile(t, file, strings.Join(lines, "\n")+"\n")
	ip(t, ns, "-batch "+file)
}

// answersAt adds addresses of next hops to a link.
func answersAt(t *testing.T, ns *lab.Namespace, link string, addrs ...string) {
	t.Helper()
	for _, a := range addrs {
		require.NoError(t, ns.AddAddr(link, netip.MustParsePrefix(a)))
	}
}

// routesOfLinux counts the routes of a namespace by family.
func routesOfLinux(t *testing.T, ns *lab.Namespace) (ipv4, ipv6 int) {
	t.Helper()
	require.NoError(t, ns.Do(func() error {
		trie, err := os.ReadFile("/proc/thread-self/net/fib_triestat")
		if err != nil {
			return err
		}
		for _, line := range strings.Split(string(trie), "\n") {
			if f := strings.Fields(line); len(f) == 2 && f[0] == "Prefixes:" {
				n, err := strconv.Atoi(f[1])
				if err != nil {
					return err
				}
				ipv4 = n // of tables main and local, which are merged without rules
			}
		}
		stats, err := os.ReadFile("/proc/thread-self/net/rt6_stats")
		if err != nil {
			return err
		}
		fields := strings.Fields(string(stats))
		if len(fields) < 4 {
			return fmt.Errorf("rt6_stats: %q", stats)
		}
		n, err := strconv.ParseInt(fields[3], 16, 64)
		ipv6 = int(n)
		return err
	}))
	return ipv4, ipv6
}

// stayOnFirstCore pins all threads of the test to the first core until the test ends. Processes that
// start later inherit it, so the router must run already.
func stayOnFirstCore(t *testing.T) {
	t.Helper()
	var all, first unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &all))
	first.Set(0)
	move := func(to *unix.CPUSet) {
		tasks, err := os.ReadDir("/proc/self/task")
		require.NoError(t, err)
		for _, task := range tasks {
			if tid, err := strconv.Atoi(task.Name()); err == nil {
				_ = unix.SchedSetaffinity(tid, to) // a thread that has ended needs none
			}
		}
	}
	move(&first)
	t.Cleanup(func() { move(&all) })
}
