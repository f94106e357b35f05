package stock

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/guest"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// The router starts on a port with 4,094 VLANs of two addresses each, which with their broadcast addresses nearly fill the XDP program's
// map of local addresses, and with 256 VRFs of 1,000 routes each, and forwards in the last of them.
func TestManyLogicalPorts(t *testing.T) {
	if !guest.Inside() && os.Getenv("WARPROUTE_SCALE") != "full" {
		t.Skip("WARPROUTE_SCALE=full runs it (make test-scale)")
	}
	guest.VM{Memory: 3072}.Test(t, 20*time.Minute, []string{"veth", "tun", "8021q", "vrf"}, func(t *testing.T, program string) {
		t.Run("4,094 VLANs", func(t *testing.T) { testManyVLANs(t, program) })
		t.Run("256 VRFs", func(t *testing.T) { testManyVRFs(t, program) })
	})
}

// startTime is the limit of the processor time of a start in a guest: 5 s, on an emulated processor that is about ten times slower than a
// real one. Other programs of the host may take most of the wall-clock time, for which startLimit is the limit.
const (
	startTime  = 50 * time.Second
	startLimit = 5 * time.Minute
)

func testManyVLANs(t *testing.T, program string) {
	n := newLastVLAN(t)
	var commands bytes.Buffer
	for id := 1; id <= 4094; id++ {
		fmt.Fprintf(&commands, "link add link wan0 name v%d up type vlan id %[1]d\n", id)
	}
	for id := 1; id <= 4094; id++ {
		if id < 4094 {
			fmt.Fprintf(&commands, "addr add 172.%d.%d.1/24 brd + dev v%d\n", 16+id>>8, id&255, id)
		}
		fmt.Fprintf(&commands, "addr add 173.%d.%d.1/24 brd + dev v%d\n", 16+id>>8, id&255, id)
	}
	commands.WriteString("addr add 10.2.0.1/24 brd + dev v4094\n")
	batch(t, n["router"], &commands)
	startMany(t, n, program)
}

func testManyVRFs(t *testing.T, program string) {
	n := newLastVLAN(t)
	var commands bytes.Buffer
	for v := range 256 {
		fmt.Fprintf(&commands, "link add link wan0 name v%d type vlan id %d\nlink add red%[1]d type vrf table %d\nlink set red%[1]d up\nlink set v%[1]d master red%[1]d up\naddr add 10.2.0.1/24 dev v%[1]d\n", v, 4094-255+v, 1000+v)
	}
	commands.WriteString("link set lan0 master red255\n")
	for v := range 256 {
		for i := range 1000 {
			fmt.Fprintf(&commands, "route add 20.%d.%d.0/24 dev v%d table %d\n", i>>8, i&255, v, 1000+v)
		}
	}
	batch(t, n["router"], &commands)
	startMany(t, n, program)
}

// newLastVLAN has a client in lan0 of the router, and a server in VLAN 4,094 of its wan0.
func newLastVLAN(t *testing.T) lab.Network {
	t.Helper()
	n, err := lab.Build(lab.VethOptions{}, `
client lan0 10.1.0.2/24 -- router lan0 10.1.0.1/24
router wan0 -- server wan0
client route 10.2.0.0/24 10.1.0.1`)
	require.NoError(t, err)
	t.Cleanup(n.Close)
	for _, ns := range []string{"router", "server"} { // a veth keeps tags of VLANs beside the frames unless this is off
		labtest.Run(t, n[ns], "ethtool", "-K", "wan0", "txvlan", "off", "tso", "off", "gso", "off")
	}
	// IPv6 addresses take most of the time; loose reverse path filtering is the default of systemd
	labtest.Run(t, n["router"], "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1", "net.ipv4.conf.all.rp_filter=2", "net.ipv4.conf.default.rp_filter=2")
	labtest.IP(t, n["server"], "link add link wan0 name v type vlan id 4094", "link set v up", "addr add 10.2.0.2/24 dev v", "route add 10.1.0.0/24 via 10.2.0.1")
	return n
}

// batch runs `ip` commands.
func batch(t *testing.T, ns *lab.Namespace, commands *bytes.Buffer) {
	t.Helper()
	start := time.Now()
	var out bytes.Buffer
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = commands, &out, &out
	p, err := ns.Start(cmd)
	require.NoError(t, err)
	<-p.Done()
	if out.Len() > 0 {
		t.Fatalf("ip: %s", out.Bytes())
	}
	t.Logf("Linux was configured after %v", time.Since(start).Round(time.Second))
}

// processorTime returns the time that a process has used. Its unit in /proc is 10 ms.
func processorTime(t *testing.T, pid int) (sum time.Duration) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.Atoi(f)
		require.NoError(t, err)
		sum += time.Duration(n) * 10 * time.Millisecond
	}
	return sum
}

// startMany starts the router, reports the time and its memory, and checks that it forwards and agrees with Linux.
func startMany(t *testing.T, n lab.Network, program string) {
	t.Helper()
	start := time.Now()
	router := labtest.StartWithin(t, startLimit, n["router"], program, nil, "--port", "lan0", "--port", "wan0", "--engine", "cpu", "--metrics", "none")
	took := time.Since(start)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", router.Process.Pid()))
	require.NoError(t, err)
	used := processorTime(t, router.Process.Pid())
	t.Logf("started after %v, %v of processor time, with %s of memory", took.Round(10*time.Millisecond), used, regexp.MustCompile(`VmRSS:\s*(.*)`).FindSubmatch(status)[1])
	if used > startTime {
		t.Errorf("the start took %v of processor time, want %v at most", used, startTime)
	}
	labtest.Eventually(t, 10*time.Second, "a ping passes", func() bool {
		r, _ := lab.Ping(n["client"], netip.MustParseAddr("10.2.0.2"), lab.PingOptions{Count: 1, Timeout: time.Second})
		return r.Received > 0
	})
	var v struct{ Different int }
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	require.NoError(t, socket.Get(ctx, router.Socket, "/verify", &v))
	if v.Different != 0 {
		t.Errorf("%d differences from Linux", v.Different)
	}
	account, text := router.Stop(), router.Out.String()
	if strings.Contains(text, "not registered") {
		t.Errorf("a local address does not fit in the XDP program's map:\n%s", text)
	}
	if account.Arrived != account.Linux+account.Lost+account.Received || account.Received != account.Transmitted+account.Dropped {
		t.Errorf("the router's account: %+v\n%s", account, text)
	}
}
