package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
)

// startMode starts both routers with all their ports in an XDP mode.
func (c *chain) startMode(mode string) (routers [2]*router) {
	c.t.Helper()
	for i, r := range []struct {
		ns    *lab.Namespace
		ports []string
	}{{c.r1, []string{"lan0", "mid0", "mid1"}}, {c.r2, []string{"mid0", "mid1", "wan0"}}} {
		config := "ports:\n"
		for _, p := range r.ports {
			config += fmt.Sprintf("  - {interface: %s, mode: %s}\n", p, mode)
		}
		file := filepath.Join(c.t.TempDir(), "router.yaml")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			c.t.Fatal(err)
		}
		routers[i] = startRouter(c.t, r.ns, "--config", file)
	}
	return routers
}

// pings sends three pings of a size from the client, and fails the test unless all are
// answered.
func (c *chain) pings(t *testing.T, what, server string, size int, args ...string) {
	t.Helper()
	args = append([]string{"-n", "-c", "3", "-i", "0.05", "-W", "2", "-s", fmt.Sprint(size)}, args...)
	if out, err := c.client.Run("ping", append(args, server)...); err != nil || !strings.Contains(out, " 0% packet loss") {
		t.Errorf("%s: %v\n%s", what, err, out)
	}
}

// Jumbo frames pass, whole and as TCP; where one does not fit, its source learns the MTU, or
// it is cut, into jumbo frames or others.
func TestJumboFrames(t *testing.T) {
	for _, mode := range []string{"native", "generic"} {
		t.Run(mode, func(t *testing.T) {
			c := newChain(t, lab.VethOptions{MTU: 9000})
			if mode == "generic" { // which sees what a veth's sender leaves to hardware that is not there
				must(t, c.client, "ethtool", "-K", "client0", "tso", "off", "gso", "off")
				must(t, c.server, "ethtool", "-K", "server0", "tso", "off", "gso", "off")
			}
			routers := c.startMode(mode)
			for _, f := range families {
				c.pings(t, f.name+", 9000 bytes", f.server, 9000-headers[f.name], "-M", "do")
				if _, err := lab.Transfer(c.client, c.server, netip.MustParseAddr(f.server), 8<<20, 20*time.Second); err != nil {
					t.Error(err)
				}
			}
			c.farMTU("4000")
			for _, f := range families {
				c.discovers(t, f.name, f.server, f.hops[1], 4000)
			}
			c.pings(t, "cut into jumbo frames", "10.2.0.2", 8972, "-M", "dont")
			c.farMTU("1500")
			for _, f := range families {
				c.discovers(t, f.name, f.server, f.hops[1], 1500)
			}
			c.pings(t, "cut into others", "10.2.0.2", 8972, "-M", "dont")
			for _, r := range routers {
				if b := r.stop(); b.arrived != b.linux+b.lost+b.received || b.received != b.transmitted+b.dropped {
					t.Errorf("frames are missing: %+v", b)
				}
			}
		})
	}
}

// Captures have all of their bytes, and traces tell of their way.
func TestJumboFramesAreSeenWhole(t *testing.T) {
	c := newChain(t, lab.VethOptions{MTU: 9000})
	r := c.startMode("native")[0]
	seen := r.capture("--rx", "--tx", "greater", "9000")
	traces, err := socket.Open(t.Context(), r.socket, "/trace?count=1&filter=icmp+and+greater+9000")
	if err != nil {
		t.Fatal(err)
	}
	defer traces.Close()
	time.Sleep(60 * time.Millisecond) // a worker that sleeps looks for taps when it wakes
	c.pings(t, "9000 bytes", "10.2.0.2", 8972, "-M", "do")
	var told status.Trace
	if err := json.NewDecoder(traces).Decode(&told); err != nil || !strings.HasPrefix(told.Packet, "ICMP type ") || told.Bytes != 9014 || !told.Destination.IsValid() {
		t.Errorf("%v: %+v", err, told)
	}
	all, _ := seen.end(t)
	if len(all) < 6 {
		t.Errorf("%d frames captured", len(all))
	}
	for _, p := range all {
		if len(p.data) != 9014 || p.length != 9014 {
			t.Errorf("%d of %d bytes captured, want 9014", len(p.data), p.length)
		}
	}
}

// Through a tunnel, too: what fits is protected whole, and of what does not the source
// learns, to the byte.
func TestJumboFramesThroughATunnel(t *testing.T) {
	c := newChain(t, lab.VethOptions{MTU: 9000})
	c.startTunnel()
	for i, f := range families {
		c.discovers(t, f.name, f.server, f.hops[0], []int{8946, 8926}[i]) // as of 1500, 7500 less
		if _, err := lab.Transfer(c.client, c.server, netip.MustParseAddr(f.server), 8<<20, 20*time.Second); err != nil {
			t.Error(err)
		}
	}
}

// A router that started with smaller frames says what a larger MTU takes.
func TestAnMTUThatGrowsBeyondTheFrames(t *testing.T) {
	top := newTopology(t, lab.VethOptions{})
	dir := t.TempDir()
	file := filepath.Join(dir, "router.yaml")
	if err := os.WriteFile(file, []byte("ports: [{interface: lan0, mode: generic}, {interface: wan0, mode: generic}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := startRouter(t, top.Router, "--config", file)
	must(t, top.Router, "ip", "link", "set", lab.LAN, "mtu", "9000")
	for end := time.Now().Add(5 * time.Second); !strings.Contains(r.out.String(), "restart the router, which allots memory by the MTUs at its start"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the router says nothing of an MTU that its frames do not hold")
		}
	}
}
