package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// startMode starts both routers with all ports in an XDP mode.
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
		routers[i] = startConfigured(c.t, r.ns, config)
	}
	return routers
}

// pings checks that the server answers three pings of a size.
func (c *chain) pings(t *testing.T, what, server string, size int, args ...string) {
	t.Helper()
	args = append([]string{"-n", "-c", "3", "-i", "0.05", "-W", "2", "-s", fmt.Sprint(size)}, args...)
	if out, err := c.client.Run("ping", append(args, server)...); err != nil || !strings.Contains(out, " 0% packet loss") {
		t.Errorf("%s: %v\n%s", what, err, out)
	}
}

// Jumbo frames pass, as pings and as TCP. Larger packets are reported to their source or fragmented.
func TestJumboFrames(t *testing.T) {
	for _, mode := range []string{"native", "generic"} {
		t.Run(mode, func(t *testing.T) {
			c := newChain(t, lab.VethOptions{MTU: 9000})
			if mode == "generic" { // it does not support offloads of the veth's sender
				must(t, c.client, "ethtool", "-K", "client0", "tso", "off", "gso", "off")
				must(t, c.server, "ethtool", "-K", "server0", "tso", "off", "gso", "off")
			}
			routers := c.startMode(mode)
			for _, f := range families {
				c.pings(t, f.name+", 9000 bytes", f.server, 9000-headers[f.name], "-M", "do")
				checkTransfer(t, c.client, c.server, netip.MustParseAddr(f.server), 8<<20, 20*time.Second)
				checkTransfer(t, c.server, c.client, netip.MustParseAddr(f.client), 8<<20, 20*time.Second)
			}
			c.farMTU("4000")
			for _, f := range families {
				c.discovers(t, f.name, f.server, f.hops[1], 4000)
			}
			c.pings(t, "fragmented into jumbo frames", "10.2.0.2", 8972, "-M", "dont")
			c.farMTU("1500")
			for _, f := range families {
				c.discovers(t, f.name, f.server, f.hops[1], 1500)
			}
			c.pings(t, "fragmented into normal frames", "10.2.0.2", 8972, "-M", "dont")
			for _, r := range routers {
				if b := r.Stop(); b.Arrived != b.Linux+b.Lost+b.Received || b.Received != b.Transmitted+b.Dropped {
					t.Errorf("frames are missing: %+v", b)
				}
			}
		})
	}
}

func TestJumboFramesAreCapturedAndTracedWhole(t *testing.T) {
	c := newChain(t, lab.VethOptions{MTU: 9000})
	r := c.startMode("native")[0]
	seen := r.capture("--rx", "--tx", "greater", "9000")
	traces, err := socket.Open(t.Context(), r.Socket, "/trace?count=1&filter=icmp+and+greater+9000")
	require.NoError(t, err)
	defer traces.Close()
	var trace status.Trace
	traced := make(chan error, 1)
	go func() { traced <- json.NewDecoder(traces).Decode(&trace) }()
	for range 50 { // a worker that sleeps looks for taps when it wakes
		if c.pings(t, "9000 bytes", "10.2.0.2", 8972, "-M", "do"); len(traced) > 0 {
			break
		}
		time.Sleep(60 * time.Millisecond)
	}
	if len(traced) == 0 {
		t.Fatal("no packet is traced")
	}
	if err := <-traced; err != nil || !strings.HasPrefix(trace.Packet, "ICMP type ") || trace.Bytes != 9014 || !trace.Destination.IsValid() {
		t.Errorf("%v: %+v", err, trace)
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

// Packets up to the tunnel's MTU pass whole; sources learn the exact MTU of the tunnel.
func TestJumboFramesPassTunnels(t *testing.T) {
	c := newChain(t, lab.VethOptions{MTU: 9000})
	c.startTunnel()
	for i, f := range families {
		c.discovers(t, f.name, f.server, f.hops[0], []int{8946, 8926}[i]) // as of 1500, 7500 less
		checkTransfer(t, c.client, c.server, netip.MustParseAddr(f.server), 8<<20, 20*time.Second)
	}
}

func TestMTUAboveFrameSizeIsReported(t *testing.T) {
	top := newTopology(t, lab.VethOptions{})
	r := startConfigured(t, top.Router, "ports: [{interface: lan0, mode: generic}, {interface: wan0, mode: generic}]\n")
	ip(t, top.Router, "link set "+lab.LAN+" mtu 9000")
	r.awaitLog("restart the router, which allocates memory by the MTUs at its start")
}
