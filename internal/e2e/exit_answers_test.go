package e2e

import (
	"bytes"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// ICMP errors of Linux about packets that have left a tunnel and exit quote them. They leave by the tunnel, or not at
// all: without a route by ipsec.interface to the source, packets out of tunnels do not exit.
func TestAnswersToExitsDoNotLeaveInPlaintext(t *testing.T) {
	t.Parallel()
	n := newNarrowPath(t, "", "")
	n.a.Stop()
	path := narrowConfig(t, true, "", "  interface: ipsec0\n")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	writeFile(t, path, "exit: {linux: on}\n"+string(text))
	ip(t, n.gatewayA, "link add wan1 type veth peer name wan2", "link set wan1 mtu 600 up", "link set wan2 up", "addr add 10.9.0.1/24 dev wan1",
		"route add 10.1.0.77/32 via 10.9.0.2", "neigh add 10.9.0.2 lladdr 02:00:00:00:00:77 dev wan1", "route add 10.1.0.78/32 via 10.9.0.3")
	forward(t, n.gatewayA)
	sysctl(t, n.gatewayA, "net.ipv4.icmp_ratelimit", "0")
	n.a = startRouter(t, n.gatewayA, "--config", path)
	wire, exits := startSniffer(t, n.middle, "near"), startSniffer(t, n.gatewayA, "wan2")
	send := func() {
		for _, dst := range []string{"10.1.0.77", "10.1.0.78"} {
			for _, size := range []int{56, 900} {
				_, _ = lab.Ping(n.server, netip.MustParseAddr(dst), lab.PingOptions{Count: 2, Size: size, Timeout: 100 * time.Millisecond})
			}
		}
		time.Sleep(4 * time.Second) // until Linux reports the host that is not there
		in, _ := wire.frames()
		for _, f := range in {
			if f[23] == 1 || bytes.Contains(f, []byte{10, 2, 0, 2}) {
				t.Errorf("in plaintext: % x", f)
			}
		}
	}
	send()
	in, _ := exits.frames()
	if len(in) != 0 {
		t.Errorf("%d packets exit without a way back", len(in))
	}
	ip(t, n.gatewayA, "route add 10.2.0.0/24 dev ipsec0 src 10.1.0.1")
	time.Sleep(effect)
	send()
	if in, _ := exits.frames(); len(in) == 0 {
		t.Error("no packets exit")
	}
}
