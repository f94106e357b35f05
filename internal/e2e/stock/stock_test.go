// Package stock tests the warproute program on devices that the kernel of a development host
// may lack: VLANs and bonds, in a virtual machine with Debian's stock kernel.
package stock

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/guest"
)

// inGuest has the test binary, run by TestPortsOfAStockKernel in a virtual machine, be the
// test. Its value is the program under test.
const inGuest = "STOCK_TEST_IN_GUEST"

func TestPortsOfAStockKernel(t *testing.T) {
	if program := os.Getenv(inGuest); program != "" {
		testPorts(t, program)
		return
	}
	if testing.Short() {
		t.Skip("-short: boots a virtual machine: 30 s")
	}
	dir := t.TempDir()
	program, test := filepath.Join(dir, "warproute"), filepath.Join(dir, "stock.test")
	if err := guest.Build(program, "github.com/warproute/warproute/cmd/warproute"); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "test", "-c", "-o", test, ".") // a guest has no room for the race detector
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-pgo=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the test for the guest: %v: %s", err, out)
	}
	g, err := guest.StartVM("../../../out/kernel") // where the Makefile has it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	if _, err := g.Run("modprobe", "-a", "veth", "8021q", "bonding"); err != nil {
		t.Fatal(err)
	}
	// With one processor Go would leave what waits in a system call there for 10 ms.
	out, err := g.Run("env", inGuest+"="+program, "GOMAXPROCS=4", test, "-test.run", "^TestPortsOfAStockKernel$", "-test.v", "-test.timeout", "50s")
	if err != nil {
		t.Fatal(err) // with the output
	}
	if !strings.Contains(out, "--- PASS: TestPortsOfAStockKernel") {
		t.Fatalf("the test did not run in the guest: %s", out)
	}
	t.Log(out)
}

// network is a router between two hosts. What the router has to the server is made by tests.
//
//	client ── lan0 router wan0, wan1 ── wan0, wan1 server
//	10.1.0.2  10.1.0.1                              10.2.0.2
type network struct {
	t                      *testing.T
	client, router, server *lab.Namespace
	program                string
}

// testPorts tests kinds of devices as the router's port to the server.
func testPorts(t *testing.T, program string) {
	for _, below := range []string{"wan0", "bond0"} {
		t.Run("VLAN on "+below, func(t *testing.T) {
			n := newNetwork(t, program)
			if below == "bond0" {
				n.bond()
			}
			// Generic XDP sees what a veth's sender leaves to hardware that is not there.
			if out, err := n.server.Run("ethtool", "-K", "wan0", "tso", "off", "gso", "off"); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			port := below + ".7"
			n.ip(n.router, "link add link "+below+" name "+port+" type vlan id 7")
			n.ip(n.server, "link add link wan0 name wan0.7 type vlan id 7")
			n.ip(n.server, "link set wan0.7 up")
			n.ip(n.router, "link set "+port+" up")
			n.ip(n.router, "addr add 10.2.0.1/24 dev "+port)
			n.ip(n.server, "addr add 10.2.0.2/24 dev wan0.7")
			n.ip(n.server, "route add 10.1.0.0/24 via 10.2.0.1")
			n.passes(port)
		})
	}
	t.Run("bond and member", func(t *testing.T) {
		n := newNetwork(t, program)
		n.bond()
		for _, c := range []struct {
			port, reason string
			verbs        []string
		}{
			{"bond0", "bond0 is a bond: Linux does not deliver the frames of its members", []string{"doctor", "check", "run"}},
			{"wan0", "wan0 is a member of bond bond0", []string{"check"}},
		} {
			config := filepath.Join(t.TempDir(), "router.yaml")
			if err := os.WriteFile(config, []byte("ports: [{interface: lan0}, {interface: "+c.port+"}]\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			args := map[string][]string{
				"doctor": {"--port", "lan0", "--port", c.port},
				"check":  {"--config", config},
				"run":    {"--config", config, "--socket", "/run/stock.sock"},
			}
			for _, verb := range c.verbs {
				if out, err := n.router.Run(program, append([]string{verb}, args[verb]...)...); err == nil || !strings.Contains(out, c.reason) {
					t.Errorf("%s of port %s: %v, want %q in\n%s", verb, c.port, err, c.reason, out)
				}
			}
		}
	})
}

func newNetwork(t *testing.T, program string) *network {
	t.Helper()
	n := &network{t: t, program: program}
	for _, ns := range []struct {
		name string
		to   **lab.Namespace
	}{{"client", &n.client}, {"router", &n.router}, {"server", &n.server}} {
		made, err := lab.New(ns.name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { made.Close() })
		*ns.to = made
	}
	for _, link := range [][2]lab.End{
		{{Namespace: n.client, Name: "lan0"}, {Namespace: n.router, Name: "lan0"}},
		{{Namespace: n.router, Name: "wan0"}, {Namespace: n.server, Name: "wan0"}},
		{{Namespace: n.router, Name: "wan1"}, {Namespace: n.server, Name: "wan1"}},
	} {
		if err := lab.Veth(link[0], link[1], lab.VethOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, end := range link {
			n.ip(end.Namespace, "link set "+end.Name+" up")
		}
	}
	n.ip(n.client, "addr add 10.1.0.2/24 dev lan0")
	n.ip(n.client, "route add 10.2.0.0/24 via 10.1.0.1")
	n.ip(n.router, "addr add 10.1.0.1/24 dev lan0")
	return n
}

func (n *network) ip(ns *lab.Namespace, args string) {
	n.t.Helper()
	if out, err := ns.Run("ip", strings.Fields(args)...); err != nil {
		n.t.Fatalf("ip %s: %v: %s", args, err, out)
	}
}

// bond makes a bond of the router's interfaces to the server.
func (n *network) bond() {
	n.t.Helper()
	n.ip(n.router, "link add bond0 type bond mode active-backup miimon 100 primary wan0")
	for _, member := range []string{"wan0", "wan1"} {
		n.ip(n.router, "link set "+member+" down")
		n.ip(n.router, "link set "+member+" master bond0")
	}
	n.ip(n.router, "link set bond0 up")
}

// passes has a router forward TCP both ways between lan0 and another port, with every frame
// accounted for.
func (n *network) passes(port string) {
	n.t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(n.program, "run", "--port", "lan0", "--port", port, "--engine", "cpu", "--metrics", "none", "--socket", filepath.Join(n.t.TempDir(), "s"))
	cmd.Stdout, cmd.Stderr = &out, &out
	router, err := n.router.Start(cmd)
	if err != nil {
		n.t.Fatal(err)
	}
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
	if err := router.Stop(5 * time.Second); err != nil {
		n.t.Errorf("stop the router: %v", err)
	}
	var arrived, linux, lost, received uint64
	text := out.String()
	if i := strings.Index(text, "stopped:"); i < 0 {
		n.t.Errorf("the router does not account for its frames:\n%s", text)
	} else if _, err := fmt.Sscanf(text[i:], "stopped: %d frames arrived: %d handed to Linux, %d lost before the router, %d received", &arrived, &linux, &lost, &received); err != nil ||
		arrived != linux+lost+received || strings.Contains(text, "redirect_refused") || strings.Contains(text, "did not hand") {
		n.t.Errorf("the router's account: %v\n%s", err, text)
	}
}
