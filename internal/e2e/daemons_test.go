package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
)

// Routing daemons as plain processes in a namespace, their files in a directory of
// their own. Package lab kills them when the test ends, however it does.

// daemon is a process of a routing suite.
type daemon struct {
	*lab.Process
	out *output
}

// cores are those that daemons run on.
type cores bool

// Under load daemons are on the first core alone: while one is in the kernel, which may be
// for milliseconds, nothing else has its core, and the router's worker has the last.
const (
	anyCore   cores = false
	firstCore cores = true
)

func startDaemon(t *testing.T, ns *lab.Namespace, on cores, cmd *exec.Cmd) *daemon {
	t.Helper()
	if on == firstCore {
		cmd = exec.Command("taskset", append([]string{"-c", "0"}, cmd.Args...)...)
	}
	d := &daemon{out: &output{}}
	cmd.Stdout, cmd.Stderr = d.out, d.out
	var err error
	if d.Process, err = ns.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.Process.Stop(5 * time.Second)
		if t.Failed() {
			t.Logf("%s wrote:\n%s", cmd.Args, d.out)
		}
	})
	return d
}

// kill ends a daemon as a crash would.
func (d *daemon) kill(t *testing.T) {
	t.Helper()
	if err := d.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-d.Done()
}

// awaitFile waits until a daemon has made a file, such as its socket.
func (d *daemon) awaitFile(t *testing.T, path string) {
	t.Helper()
	eventually(t, 10*time.Second, path+" appears", func() bool {
		select {
		case <-d.Done():
			t.Fatalf("the daemon ended at its start:\n%s", d.out)
		default:
		}
		_, err := os.Stat(path)
		return err == nil
	})
}

// eventually waits until a condition holds, and returns how long that took.
func eventually(t *testing.T, patience time.Duration, what string, holds func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !holds() {
		if time.Since(start) > patience {
			t.Fatalf("%v, and not yet: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(start)
}

// bird is BIRD, with the files that its configuration names beside it.
type bird struct {
	*daemon
	ns  *lab.Namespace
	dir string
}

// startBird starts BIRD in a namespace with a configuration. With "-R" it tells its
// peers that it starts again, and that packets were forwarded meanwhile (RFC 4724, section 3).
func startBird(t *testing.T, ns *lab.Namespace, on cores, dir, config string, flags ...string) *bird {
	t.Helper()
	writeFile(t, filepath.Join(dir, "bird.conf"), "log stderr all;\n"+config)
	socket := filepath.Join(dir, "bird.ctl")
	_ = os.Remove(socket) // of one that was killed
	cmd := exec.Command("bird", append([]string{"-f", "-c", filepath.Join(dir, "bird.conf"), "-s", socket}, flags...)...)
	b := &bird{daemon: startDaemon(t, ns, on, cmd), ns: ns, dir: dir}
	b.awaitFile(t, socket)
	return b
}

// do has BIRD do something, as its shell would.
func (b *bird) do(t *testing.T, command string) string {
	t.Helper()
	return must(t, b.ns, "birdc", "-s", filepath.Join(b.dir, "bird.ctl"), command)
}

// established reports whether both sessions are up.
func (b *bird) established(t *testing.T) bool {
	t.Helper()
	return strings.Count(b.do(t, "show protocols"), "Established") == 2
}

// frr is zebra and bgpd of FRR. They give up root for their own user, who owns the
// directory of their sockets.
type frr struct {
	ns          *lab.Namespace
	on          cores
	dir         string
	zebra, bgpd *daemon
}

// startFRR starts both in a namespace; bgpd with the commands of its configuration.
func startFRR(t *testing.T, ns *lab.Namespace, on cores, bgp string) *frr {
	t.Helper()
	dir, err := os.MkdirTemp("", "warproute-frr") // which others may enter, unlike t.TempDir
	if err != nil {
		t.Fatal(err)
	}
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
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	f := &frr{ns: ns, on: on, dir: dir}
	writeFile(t, filepath.Join(dir, "zebra.conf"), "log stdout warnings\n")
	writeFile(t, filepath.Join(dir, "bgpd.conf"), "log stdout warnings\n"+bgp)
	f.zebra = f.start(t, "zebra")
	f.zebra.awaitFile(t, filepath.Join(dir, "zserv"))
	f.startBGP(t)
	return f
}

// startBGP starts bgpd, for the first time or again.
func (f *frr) startBGP(t *testing.T) {
	t.Helper()
	_ = os.Remove(filepath.Join(f.dir, "bgpd.vty"))
	f.bgpd = f.start(t, "bgpd", "-p", "179")
	f.bgpd.awaitFile(t, filepath.Join(f.dir, "bgpd.vty"))
}

// start starts a daemon of FRR's. It gives up root, and with it what would kill it when
// the test dies; so it is in a namespace of processes whose first one is killed then. Its
// crash logs go where they vanish with it.
func (f *frr) start(t *testing.T, name string, args ...string) *daemon {
	t.Helper()
	args = append([]string{"--pid", "--fork", "--kill-child", "sh", "-c", `mount -t tmpfs tmpfs /var/tmp; "$0" "$@"; exit $?`, "/usr/lib/frr/" + name,
		"-f", filepath.Join(f.dir, name+".conf"), "-i", filepath.Join(f.dir, name+".pid"), "-z", filepath.Join(f.dir, "zserv"),
		"--vty_socket", f.dir, "-P", "0"}, args...)
	return startDaemon(t, f.ns, f.on, exec.Command("unshare", args...))
}

// heardAll reports whether both peers have told all routes since their sessions began (RFC
// 4724, section 2): what they told before it and not again is gone then.
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

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// ipBatch runs `ip` commands, one a line, in a namespace.
func ipBatch(t *testing.T, ns *lab.Namespace, lines ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "batch")
	writeFile(t, file, strings.Join(lines, "\n")+"\n")
	must(t, ns, "ip", "-batch", file)
}

// answersAt gives a link of a namespace addresses, so that next hops are there.
func answersAt(t *testing.T, ns *lab.Namespace, link string, addrs ...string) {
	t.Helper()
	for _, a := range addrs {
		if err := ns.AddAddr(link, netip.MustParsePrefix(a)); err != nil {
			t.Fatal(err)
		}
	}
}

// routesOfLinux counts the routes of a namespace, of both families.
func routesOfLinux(t *testing.T, ns *lab.Namespace) (ipv4, ipv6 int) {
	t.Helper()
	if err := ns.Do(func() error {
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
				ipv4 = n // of Main, and of Local, which are one as long as no rule parts them
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
	}); err != nil {
		t.Fatal(err)
	}
	return ipv4, ipv6
}

// stayOnFirstCore moves all threads of the test, which sends and receives, to where daemons are
// until the test ends. The router is to have been started: what is started inherits the place.
func stayOnFirstCore(t *testing.T) {
	t.Helper()
	var all, first unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	first.Set(0)
	move := func(to *unix.CPUSet) {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			if tid, err := strconv.Atoi(task.Name()); err == nil {
				_ = unix.SchedSetaffinity(tid, to) // a thread that has ended needs none
			}
		}
	}
	move(&first)
	t.Cleanup(func() { move(&all) })
}
