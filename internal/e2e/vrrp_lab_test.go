package e2e

import (
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

// A pair of routers with the keepalived.conf of docs/routing.md is the default gateway of a host, and of a server:
//
//	host ── lan (bridge) ─┬─ eth1 a eth2 ─┬─ wan (bridge) ── server
//	10.1.0.9              └─ eth1 b eth2 ─┘                  192.0.2.9
//
// The virtual addresses are 10.1.0.1 and 192.0.2.1.
const vrrpNetwork = `
host eth0 10.1.0.9/24 fd01::9/64 -- lan host
a eth1 10.1.0.2/24 fd01::2/64 -- lan a
b eth1 10.1.0.3/24 fd01::3/64 -- lan b
a eth2 192.0.2.2/24 2001:db8::2/64 -- wan a
b eth2 192.0.2.3/24 2001:db8::3/64 -- wan b
server eth0 192.0.2.9/24 2001:db8::9/64 -- wan server
host route default 10.1.0.1
host route default fd01::1
server route default 192.0.2.1
server route default 2001:db8::1
`

// virtualMACs are the MAC addresses of the virtual routers at the host (RFC 5798, section 7.3).
var virtualMACs = map[string]string{"10.1.0.1": "00:00:5e:00:01:33", "fd01::1": "00:00:5e:00:02:33"}

// vrrpNode is a router of the pair.
type vrrpNode struct {
	t          *testing.T
	ns         *lab.Namespace
	dir        string // its keepalived.conf and /run
	router     *router
	keepalived *daemon
}

// newVRRP builds the network and starts both routers, a with the higher priority.
func newVRRP(t *testing.T) (n lab.Network, a, b *vrrpNode) {
	t.Helper()
	n = build(t, lab.VethOptions{}, vrrpNetwork)
	for _, name := range []string{"lan", "wan"} {
		ip(t, n[name], "link add br0 type bridge mcast_snooping 0", "link set br0 up")
		sysctl(t, n[name], "net.ipv6.conf.all.disable_ipv6", "1")
		for _, port := range []string{"host", "a", "b", "server"} {
			if _, err := n[name].Link(port); err == nil {
				ip(t, n[name], "link set dev "+port+" master br0")
			}
		}
	}
	config := labtest.Block(t, "../../docs/routing.md", "vrrp_script warproute {")
	if strings.Count(config, " priority 150\n") != strings.Count(config, "vrrp_instance ") {
		t.Fatal("docs/routing.md: not every vrrp_instance has priority 150")
	}
	a, b = &vrrpNode{t: t, ns: n["a"]}, &vrrpNode{t: t, ns: n["b"]}
	for node, text := range map[*vrrpNode]string{a: config, b: strings.ReplaceAll(config, " priority 150\n", " priority 100\n")} {
		node.dir = t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Join(node.dir, "run/warproute"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(node.dir, "keepalived.conf"), []byte(text), 0o600))
		node.startRouter()
		node.startKeepalived()
	}
	return n, a, b
}

func (n *vrrpNode) startRouter() {
	n.t.Helper()
	n.router = startRouter(n.t, n.ns, "--port", "eth1", "--port", "eth2", "--engine", "cpu")
	link := filepath.Join(n.dir, "run/warproute/control.sock")
	_ = os.Remove(link)
	require.NoError(n.t, os.Symlink(n.router.Socket, link))
}

func (n *vrrpNode) signal(s unix.Signal) {
	n.t.Helper()
	require.NoError(n.t, n.router.Process.Signal(s))
}

// startKeepalived starts keepalived, with the router's program in /usr/bin and a /run of its own.
func (n *vrrpNode) startKeepalived() {
	n.t.Helper()
	const script = `mount --bind "$0/run" /run && mount -t overlay -o lowerdir="$1:/usr/bin" overlay /usr/bin &&
exec keepalived --dont-fork --log-console --log-detail --use-file "$0/keepalived.conf"`
	n.keepalived = startDaemon(n.t, n.ns, anyCore, exec.Command("sh", "-c", script, n.dir, filepath.Dir(program)))
}

// killKeepalived ends all processes of keepalived at once by SIGKILL. It removes nothing: the virtual addresses stay.
func (n *vrrpNode) killKeepalived() {
	n.t.Helper()
	pid := strconv.Itoa(n.keepalived.Pid())
	require.NoError(n.t, n.keepalived.Signal(unix.SIGSTOP)) // else it restarts its child, which ends with it by SIGTERM
	children, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	require.NoError(n.t, err)
	for _, child := range strings.Fields(string(children)) {
		number, err := strconv.Atoi(child)
		require.NoError(n.t, err)
		require.NoError(n.t, unix.Kill(number, unix.SIGKILL))
	}
	kill(n.t, n.keepalived.Process)
}

// active reports whether a router has all virtual addresses.
func (n *vrrpNode) active() bool {
	n.t.Helper()
	out := must(n.t, n.ns, "ip", "-o", "addr", "show")
	for _, virtual := range []string{"10.1.0.1/", "192.0.2.1/", "fd01::1/", "2001:db8::1/"} {
		if !strings.Contains(out, " "+virtual) {
			return false
		}
	}
	return true
}

// becomesActive waits until a router has all virtual addresses.
func (n *vrrpNode) becomesActive(when string) {
	n.t.Helper()
	d := eventually(n.t, 10*time.Second, "router "+n.ns.Name()+" is active "+when, n.active)
	n.t.Logf("router %s is active %s after %v", n.ns.Name(), when, d.Round(time.Millisecond))
}
