// Package stock tests the warproute program on VLANs and bonds, in a virtual machine with Debian's
// stock kernel: the kernel of a development host may lack them.
package stock

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/guest"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

func TestPortsOfAStockKernel(t *testing.T) {
	guest.InVM(t, 150*time.Second, []string{"veth", "8021q", "bonding"}, testPorts)
}

// network is a router between two hosts. Tests create the router's port to the server.
type network struct {
	t                      *testing.T
	client, router, server *lab.Namespace
	program                string
}

// testPorts tests several kinds of devices as the router's port to the server.
func testPorts(t *testing.T, program string) {
	for _, below := range []string{"wan0", "bond0"} {
		t.Run("VLAN on "+below, func(t *testing.T) {
			n := newNetwork(t, program)
			if below == "bond0" {
				n.bond()
			}
			// Generic XDP receives segments that the veth sender has not cut.
			labtest.Run(t, n.server, "ethtool", "-K", "wan0", "tso", "off", "gso", "off")
			port := below + ".7"
			labtest.IP(t, n.router, "link add link "+below+" name "+port+" type vlan id 7", "link set "+port+" up", "addr add 10.2.0.1/24 dev "+port)
			labtest.IP(t, n.server, "link add link wan0 name wan0.7 type vlan id 7", "link set wan0.7 up",
				"addr add 10.2.0.2/24 dev wan0.7", "route add 10.1.0.0/24 via 10.2.0.1")
			n.passes(port)
		})
	}
	t.Run("bond and member", func(t *testing.T) {
		n := newNetwork(t, program)
		n.bond()
		labtest.IP(t, n.router, "link add bond1 type bond mode balance-rr", "link add bond2 type bond mode 802.3ad")
		out, err := n.router.Run(program, "doctor", "--port", "lan0", "--port", "bond0")
		for _, line := range []string{"OK    bond0: link", "bond of wan0, wan1", "OK    wan0: master", "bond bond0, which is the port", "native, tried"} {
			if !strings.Contains(out, line) {
				t.Errorf("doctor of a bond has no line %q: %v\n%s", line, err, out)
			}
		}
		for _, c := range []struct {
			port, reason string
			verbs        []string
			code         int // of check and run; 75: systemd tries again
		}{
			{"wan0", "wan0 is a member of bond bond0: the bond is the port", []string{"doctor", "check", "run"}, 78},
			{"bond1", "bond1 is a bond in mode balance-rr: the router supports active-backup", []string{"check", "run"}, 75},
			{"bond2", "bond2 is a bond without members", []string{"check", "run"}, 75},
		} {
			config := filepath.Join(t.TempDir(), "router.yaml")
			require.NoError(t, os.WriteFile(config, []byte("ports: [{interface: lan0}, {interface: "+c.port+"}]\n"), 0o600))
			args := map[string][]string{
				"doctor": {"--port", "lan0", "--port", c.port},
				"check":  {"--config", config},
				"run":    {"--config", config, "--socket", "/run/stock.sock"},
			}
			for _, verb := range c.verbs {
				out, err := n.router.Run(program, append([]string{verb}, args[verb]...)...)
				if err == nil || !strings.Contains(out, c.reason) {
					t.Errorf("%s of port %s: %v, want %q in\n%s", verb, c.port, err, c.reason, out)
				}
				if exit, ok := errors.AsType[*exec.ExitError](err); verb != "doctor" && (!ok || exit.ExitCode() != c.code) {
					t.Errorf("%s of port %s: %v, want exit code %d", verb, c.port, err, c.code)
				}
			}
		}
	})
}

func newNetwork(t *testing.T, program string) *network {
	t.Helper()
	made, err := lab.Build(lab.VethOptions{}, `
client lan0 10.1.0.2/24 -- router lan0 10.1.0.1/24
router wan0 -- server wan0
router wan1 -- server wan1
client route 10.2.0.0/24 10.1.0.1`)
	require.NoError(t, err)
	t.Cleanup(made.Close)
	return &network{t, made["client"], made["router"], made["server"], program}
}

// bond creates a bond of the router's interfaces to the server.
func (n *network) bond() {
	n.t.Helper()
	labtest.IP(n.t, n.router, "link add bond0 type bond mode active-backup miimon 100 primary wan0")
	for _, member := range []string{"wan0", "wan1"} {
		labtest.IP(n.t, n.router, "link set "+member+" down", "link set "+member+" master bond0")
	}
	labtest.IP(n.t, n.router, "link set bond0 up")
}

// passes checks that a router forwards TCP in both directions and accounts for every frame.
func (n *network) passes(port string) {
	n.t.Helper()
	router := labtest.Start(n.t, n.router, n.program, nil, "--port", "lan0", "--port", port, "--engine", "cpu", "--metrics", "none")
	answered := false
	for end := time.Now().Add(10 * time.Second); !answered && time.Now().Before(end); {
		r, _ := lab.Ping(n.client, netip.MustParseAddr("10.2.0.2"), lab.PingOptions{Timeout: 200 * time.Millisecond})
		answered = r.Received > 0
	}
	if !answered {
		n.t.Error("pings do not pass")
	}
	for _, way := range []struct {
		from, to *lab.Namespace
		addr     string
	}{{n.client, n.server, "10.2.0.2"}, {n.server, n.client, "10.1.0.2"}} {
		if _, err := lab.Transfer(way.from, way.to, netip.MustParseAddr(way.addr), 1<<18, 8*time.Second); err != nil {
			n.t.Errorf("TCP to %s: %v", way.addr, err)
		}
	}
	b, text := router.Stop(), router.Out.String()
	if b.Arrived != b.Linux+b.Lost+b.Received || strings.Contains(text, "redirect_refused") || strings.Contains(text, "did not hand") {
		n.t.Errorf("the router's account: %+v\n%s", b, text)
	}
}
