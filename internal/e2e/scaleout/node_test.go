package scaleout

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// node is a host with FRR: a namespace with its own /run and /etc/frr, in which commands of the
// document run unchanged.
type node struct {
	t    *testing.T
	name string
	ns   *lab.Namespace
	dir  string // run is its /run, frr its /etc/frr, bin is in its PATH

	router *labtest.Router
	ended  chan struct{} // closed when the stop commands of the unit have run

	keepSessions atomic.Bool // the unit has no stop commands

	resilient *lab.Process // nil if it does not run
}

// enter replaces directories of the host and executes a command. $0 is the directory of the node.
const enter = `mount --bind "$0/run" /run && mount --bind "$0/frr" /etc/frr && export PATH="$0/bin:$PATH" && exec "$@"`

// newNode creates the directories of a node with the configuration of FRR.
func newNode(t *testing.T, name string, ns *lab.Namespace, daemons, config string) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "warproute-"+name) // unlike t.TempDir, other users can enter it
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	u, err := user.Lookup("frr")
	if err != nil {
		t.Fatalf("%v: apt-get install frr", err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	n := &node{t: t, name: name, ns: ns, dir: dir}
	for _, d := range []string{"", "run", "run/frr", "run/warproute", "frr", "bin"} {
		require.NoError(t, os.MkdirAll(n.path(d), 0o755))
		require.NoError(t, os.Chmod(n.path(d), 0o755))
	}
	require.NoError(t, os.Chown(n.path("run/frr"), uid, gid))
	n.write("frr/vtysh.conf", "")
	n.write("frr/daemons", daemons)
	n.write("frr/frr.conf", config)
	require.NoError(t, os.Symlink(program, n.path("bin/warproute")))
	return n
}

func (n *node) path(name string) string { return filepath.Join(n.dir, name) }

func (n *node) write(name, text string) {
	n.t.Helper()
	require.NoError(n.t, os.WriteFile(n.path(name), []byte(text), 0o755))
	require.NoError(n.t, os.Chmod(n.path(name), 0o755))
}

// startFRR starts zebra and the daemons that /etc/frr/daemons names, with the configuration. A tmpfs
// takes their crash logs.
const startFRR = `mount -t tmpfs tmpfs /var/tmp
rm -f /run/frr/*
start() { /usr/lib/frr/$1 -A 127.0.0.1 -P 0 --log stdout --log-level warnings & until [ -S /run/frr/$1.vty ]; do sleep 0.02; done; }
for daemon in zebra $(sed -n 's/=yes$//p' /etc/frr/daemons); do start $daemon; done
vtysh -b
touch /run/frr/configured
wait`

func (n *node) startFRR() {
	n.t.Helper()
	_ = os.Remove(n.path("run/frr/configured"))
	n.background("FRR", "sh", "-c", startFRR)
}

// awaitFRR waits until the daemons have their configuration.
func (n *node) awaitFRR() {
	n.t.Helper()
	labtest.Eventually(n.t, 20*time.Second, "FRR of "+n.name+" has its configuration", func() bool {
		_, err := os.Stat(n.path("run/frr/configured"))
		return err == nil
	})
}

func (n *node) command(args ...string) *exec.Cmd {
	return exec.Command("sh", append([]string{"-c", enter, n.dir}, args...)...)
}

// background starts a command in a PID namespace, which ends all its processes with the test or by end.
func (n *node) background(what string, args ...string) *lab.Process {
	n.t.Helper()
	cmd, out := n.command(append([]string{"unshare", "--pid", "--fork", "--kill-child"}, args...)...), &labtest.Output{}
	cmd.Stdout, cmd.Stderr = out, out
	p, err := n.ns.Start(cmd)
	require.NoError(n.t, err)
	n.t.Cleanup(func() {
		end(p)
		if n.t.Failed() && out.String() != "" {
			n.t.Logf("%s of %s wrote:\n%s", what, n.name, out)
		}
	})
	return p
}

// end ends a background command.
func end(p *lab.Process) {
	_ = p.Signal(os.Kill)
	<-p.Done()
}

// sh runs a script and returns its output. A failure ends the test.
func (n *node) sh(script string) string {
	n.t.Helper()
	out, err := n.ns.Run("sh", "-c", enter, n.dir, "sh", "-e", "-c", script)
	require.NoError(n.t, err)
	return out
}

// startRouter starts warproute as systemd does with the drop-in: the start commands follow when the
// router forwards, the stop commands after any end.
func (n *node) startRouter(config, dropIn string) {
	n.t.Helper()
	file := n.path("warproute.yaml")
	n.write("warproute.yaml", config)
	r := labtest.Start(n.t, n.ns, program, nil, "--config", file)
	_ = os.Remove(n.path("run/warproute/control.sock"))
	require.NoError(n.t, os.Symlink(r.Socket, n.path("run/warproute/control.sock")))
	for _, c := range commands(dropIn, "ExecStartPost") {
		n.sh(c)
	}
	ended := make(chan struct{})
	n.router, n.ended = r, ended
	go func() {
		defer close(ended)
		<-r.Process.Done()
		if n.keepSessions.Load() {
			return
		}
		for _, c := range commands(dropIn, "ExecStopPost") {
			if out, err := n.ns.Run("sh", "-c", enter, n.dir, "sh", "-e", "-c", c); err != nil && !strings.Contains(err.Error(), "closed") {
				fmt.Fprintf(os.Stderr, "%s: %v\n%s", c, err, out)
			}
		}
	}()
}

// commands returns the commands of a key of a unit that run with full privileges.
func commands(unit, key string) (all []string) {
	for line := range strings.Lines(unit) {
		if c, ok := strings.CutPrefix(strings.TrimSpace(line), key+"=-+"); ok {
			all = append(all, c)
		}
	}
	return all
}

// stopRouter stops the router and compares the sums of its account.
func (n *node) stopRouter() labtest.Account {
	n.t.Helper()
	a := n.router.Stop()
	<-n.ended
	if a.Arrived != a.Linux+a.Lost+a.Received || a.Received != a.Transmitted+a.Dropped || a.Transmitted == 0 {
		n.t.Errorf("%s: not every frame is accounted for: %+v", n.name, a)
	}
	n.t.Logf("%s: %+v", n.name, a)
	return a
}

// paths returns the number of next hops of FRR's route to a prefix in Linux.
func (n *node) paths(prefix string) int {
	n.t.Helper()
	_, dst, err := net.ParseCIDR(prefix)
	require.NoError(n.t, err)
	routes, err := n.ns.Netlink().RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Dst: dst}, netlink.RT_FILTER_DST)
	require.NoError(n.t, err)
	for _, r := range routes {
		if len(r.MultiPath) > 0 {
			return len(r.MultiPath)
		}
	}
	return len(routes)
}

// members returns the number of members of the resilient group.
func (n *node) members() int {
	n.t.Helper()
	out, _ := n.ns.Run("ip", "nexthop", "show", "id", "999999") // fails if it does not exist
	if _, group, ok := strings.Cut(out, " group "); ok {
		return 1 + strings.Count(strings.Fields(group)[0], "/")
	}
	return 0
}

// startResilient starts the script of the document that keeps a resilient group.
func (n *node) startResilient(script, prefix string) {
	n.t.Helper()
	n.write("bin/ecmp-resilient", script)
	n.resilient = n.background("ecmp-resilient", "ecmp-resilient", prefix)
}
