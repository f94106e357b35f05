package stock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/guest"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// Three VRFs over VLANs on a bond with FRR's BGP and OSPF, as documented, converge as with Linux's forwarding. While a member of
// the bond is pulled, a VRF is deleted and created again, and a VLAN, no packet arrives at another customer, the others lose
// nothing, and every loss is counted.
func TestFRRWithVRFsOverVLANsOnABond(t *testing.T) {
	if !guest.Inside() && os.Getenv("WARPROUTE_SCALE") != "full" {
		t.Skip("WARPROUTE_SCALE=full runs it (make test-scale)")
	}
	guest.InVM(t, 200*time.Second, []string{"veth", "8021q", "bonding", "vrf"}, testFRR)
}

func testFRR(t *testing.T, program string) {
	c := newCustomers(t)
	config := filepath.Join(t.TempDir(), "router.yaml")
	require.NoError(t, os.WriteFile(config, []byte("ports: [{interface: bond0}, {interface: eth3}, {interface: eth4}, {interface: eth5}]\nengine: cpu\nicmp: {source_per_second: 500, source_burst: 100}\nmetrics: {listen: \"\"}\n"), 0o600))
	router := labtest.Start(t, c.Network["router"], program, nil, "--config", config)
	c.startFRR()
	c.converge("at the start")
	tr := c.startTraffic()
	time.Sleep(time.Second)
	phases := c.phases()
	var ours []string
	for i, p := range phases {
		tr.during(i+1, func() { ours = append(ours, c.run(i, p)...) })
		c.verify(p.what, router)
	}
	tr.stop()
	time.Sleep(2 * inFlight)
	tr.check(phases)
	var drops []status.Drop
	require.NoError(t, router.Get("/drops", &drops))
	sum, reasons := uint64(0), map[string]uint64{}
	for _, d := range drops {
		sum += d.Packets
		reasons[d.Reason] += d.Packets
	}
	account, text := router.Stop(), router.Out.String()
	t.Logf("%+v, dropped %v", account, reasons)
	if account.Arrived != account.Linux+account.Lost+account.Received || account.Received != account.Transmitted+account.Dropped || account.Lost != 0 || account.Dropped != sum {
		t.Errorf("the router's account: %+v, by reason %d\n%s", account, sum, text)
	}

	// Linux's forwarding, without the router, has the same outcomes.
	labtest.Run(t, c.Network["router"], "sysctl", "-qw", "net.ipv4.conf.all.forwarding=1", "net.ipv4.icmp_ratelimit=0", "net.ipv4.icmp_ratemask=0")
	c.converge("with Linux's forwarding")
	if os.Getenv("WARPROUTE_SCALE") != "full" {
		phases = phases[:1]
	}
	var linux []string
	for i, p := range phases {
		linux = append(linux, c.run(i, p)...)
	}
	if ours = ours[:len(linux)]; !slices.Equal(ours, linux) {
		t.Errorf("outcomes of the router:\n%s\nof Linux:\n%s", strings.Join(ours, "\n"), strings.Join(linux, "\n"))
	}
}

// verify waits until the router's tables are those of Linux.
func (c customers) verify(when string, router *labtest.Router) {
	c.t.Helper()
	var v mirror.Verification
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		v = mirror.Verification{}
		require.NoError(c.t, router.Get("/verify", &v))
		if v.Different == 0 {
			return
		}
	}
	c.t.Errorf("%s: the tables differ from Linux's at %d of %d addresses: %+v", when, v.Different, v.Addresses, v.Differences)
}

// phase is a change of the network, and how it is reverted. It does not touch streams from some namespaces.
type phase struct {
	what           string
	steady         []string
	change, revert func()
}

// phases returns the changes: none, a member of the bond is pulled, VRF red is deleted and created again, and VLAN 30.
func (c customers) phases() []phase {
	r := c.Network["router"]
	return []phase{
		{"all routes", []string{"red", "blue", "green", "red-lan", "blue-lan", "green-lan"}, func() {}, func() {}},
		{"member pulled", nil, func() { require.NoError(c.t, c.Network["wire"].SetDown("eth1")) }, func() { require.NoError(c.t, c.Network["wire"].SetUp("eth1")) }},
		{"VRF deleted", []string{"blue", "blue-lan", "green-lan"}, func() { labtest.IP(c.t, r, "link del red") }, func() {
			labtest.IP(c.t, r, "link add red type vrf table 10", "link set red up", "route replace unreachable default table 10 metric 4278198272",
				"-6 route replace unreachable default table 10 metric 4278198272", "link set bond0.10 master red", "link set eth3 master red")
		}},
		{"VLAN deleted", []string{"blue", "blue-lan", "red-lan"}, func() { labtest.IP(c.t, r, "link del bond0.30") }, func() {
			labtest.IP(c.t, r, "link add link bond0 name bond0.30 type vlan id 30", "link set bond0.30 master green up", "addr add 10.0.30.1/24 dev bond0.30")
		}},
	}
}

// run makes a change, number i, reverts it, and returns the outcomes of pings between.
func (c customers) run(i int, p phase) (outcomes []string) {
	p.change()
	time.Sleep(settle)
	for _, to := range slices.Concat(reached, refused) {
		var err error
		for attempts := 0; ; attempts++ { // a reply may be late in a guest whose daemons are busy
			if _, err = c.ping(to, time.Second); err == nil || attempts == 2 || i == 0 {
				break
			}
		}
		text := "a reply"
		if e, ok := errors.AsType[*lab.ICMPError](err); ok && i == 0 {
			text = e.Error() // elsewhere it depends on the time of a change
		} else if err != nil {
			text = "no reply"
		}
		outcomes = append(outcomes, fmt.Sprintf("%s: from %s to %s: %s", p.what, to[0], to[2], text))
	}
	p.revert()
	c.converge(p.what + " and reverted")
	return outcomes
}

// settle is the time after a change in which routes may change. Linux notices a lost carrier after 0.1 s (miimon).
const settle = time.Second
