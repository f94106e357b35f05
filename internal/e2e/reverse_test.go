package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/differential"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
)

// warproute and Linux refuse the same sources by rp_filter, also after a change.
func TestReversePathCheckEqualsLinux(t *testing.T) {
	linux := differential.Linux(t, differential.Plain)
	set := func(c *differential.Contender, of, value string) {
		t.Helper()
		sysctl(t, c.Router, "net/ipv4/conf/"+of+"/rp_filter", value)
	}
	for of, value := range map[string]string{"lan": "1", "wan": "2"} { // not nar
		set(linux, of, value)
	}
	ours, process := differential.Warproute(t, program, differential.Plain, false, func(c *differential.Contender) {
		set(c, "lan", "1")
		set(c, "wan", "2")
	})
	router := &router{process}
	m := differential.NewMaker(3704, 1)
	sources := []string{
		"10.7.0.3", "10.8.0.3", "10.9.0.3", "10.40.x.x", "10.70.x.x", "10.100.x.x", "10.20.x.x", "10.21.x.x", "10.25.x.x",
		"10.22.x.x", "10.23.x.x", "10.24.x.x", "10.28.x.x", "172.16.x.x", "8.8.8.8",
	}
	id := uint32(0)
	probes := map[uint32]*differential.Probe{}
	round := func() {
		t.Helper()
		for side := range differential.Sides {
			for range 300 {
				p := m.Datagram(id, side, sources, []string{"10.40.0.1", "10.70.0.1", "10.100.0.1"})
				probes[id] = p
				linux.Send(side, p.Frame())
				ours.Send(side, p.Frame())
				id++
			}
			linux.Settle(side)
			ours.Settle(side)
		}
	}
	round()
	refused := router.Drops("reverse_path")
	for _, c := range []*differential.Contender{linux, ours} {
		set(c, "all", "1") // lan and nar become strict, wan stays loose
	}
	router.awaitLog("port=nar ipv4=strict")
	round()
	if again := router.Drops("reverse_path"); refused == 0 || again < 2*refused {
		t.Errorf("%d packets refused at first and %d in all, too few for this test", refused, again)
	}
	v := differential.Compare(probes, linux, ours)
	v.Report(t)
	if v.Alive < len(probes)/4 || v.Alive > len(probes)*3/4 {
		t.Errorf("%d packets of %d passed", v.Alive, len(probes))
	}
}

func TestReloadChangesReversePathChecks(t *testing.T) {
	top := newTopology(t, lab.VethOptions{})
	r := startReloading(t, top)
	mac := macOf(t, top.Router, lab.LAN)
	stranger := testutil.UDP4("172.16.0.1", lab.Server4.Addr().String(), 1000, 2000)
	copy(stranger, mac)
	fd := packetSocket(t, top.Client, lab.ClientLink)
	const sent = 10
	for step, of := range []string{"", "strict", "loose", "off"} {
		if of != "" {
			text := fmt.Sprintf("ports: [{interface: %s}, {interface: %s, reverse_path: %s}]\n", lab.WAN, lab.LAN, of)
			writeFile(t, r.path, text)
			if code, out, errs := r.reload(); code != 0 || !strings.Contains(out, "reverse_path "+of) {
				t.Fatalf("%s: exit code %d, %q, %q", of, code, out, errs)
			}
		}
		before := r.Drops("reverse_path")
		for range sent {
			require.NoError(t, unix.Send(fd, stranger, 0))
		}
		want := uint64(0)
		if step == 1 || step == 2 {
			want = sent
		}
		if _, err := lab.Ping(top.Client, lab.Server4.Addr(), lab.PingOptions{}); err != nil { // after them
			t.Errorf("%s: %v", of, err)
		}
		if n := uint64(r.Drops("reverse_path") - before); n != want {
			t.Errorf("%q: %d packets of %d refused, want %d", of, n, sent, want)
		}
	}
}

// Linux treats loose as strict on an interface without an IPv4 address.
func TestLooseCheckIsStrictOnPortsWithoutAddress(t *testing.T) {
	top := newTopology(t, lab.VethOptions{})
	sysctl(t, top.Router, "net.ipv4.conf."+lab.LAN+".rp_filter", "2")
	r := startRouter(t, top.Router, "--port", lab.LAN, "--port", lab.WAN)
	says := func(text string) func() bool { return func() bool { return strings.Contains(r.Out.String(), text) } }
	eventually(t, 5*time.Second, "the port is loose", says("port="+lab.LAN+" ipv4=loose"))
	ip(t, top.Router, "-4 addr flush dev "+lab.LAN)
	eventually(t, 5*time.Second, "the port is strict", says("port="+lab.LAN+" ipv4=strict"))
}
