// Package nics tests the warproute program with the drivers of emulated NICs, under several kernels, in
// virtual machines. `make test` runs the quick tests; `make test-nics` runs all.
package nics

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/guest"
	"github.com/warproute/warproute/internal/require"
)

// directory has the kernels and QEMU of scripts/nics.sh.
const directory = "../../../out/nics"

// newest is the kernel of quick tests.
const newest = "7"

// kernels returns the kernels to test.
func kernels() []string {
	if full() {
		return []string{"6.1", "6.12", newest}
	}
	return []string{newest}
}

// machine is a guest with two ports of each NIC model.
type machine struct {
	*guest.Guest
	kernel  string
	program string // the router
	pairs   []*pair
}

// pair is two ports of a model, with a host beyond each. The networks of side s of pair i are
// 10.i.s.0/24 and fd00:i:s::/64, in which the router has address 1 and the host address 2.
type pair struct {
	*machine
	number int
	model  guest.Model
	nics   [2]guest.EmulatedNIC
	hosts  [2]*lab.Namespace
	taps   [2]net.HardwareAddr // addresses of the hosts
}

const tap = "tap0" // a host's link to the router

// families are the two IP versions with their numbers in addresses.
var families = [2]struct{ network, host, all string }{
	{"10.%d.%d.%d/24", "10.%d.%d.%d", "10.%d.%d.0/24"},
	{"fd00:%d:%d::%d/64", "fd00:%d:%d::%d", "fd00:%d:%d::/64"},
}

func (p *pair) addr(family, side, number int) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf(families[family].host, p.number, side, number))
}

func (p *pair) port(side int) string { return p.nics[side].Name }

func (p *pair) ports() string { return p.port(0) + " " + p.port(1) }

// boot starts a guest with two processors, so that NICs have several queues, and loads the drivers.
func boot(t *testing.T, kernel string, models ...guest.Model) *machine {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: boots a virtual machine")
	}
	m := &machine{kernel: kernel, program: filepath.Join(t.TempDir(), "warproute")}
	require.NoError(t, guest.Build(m.program, "github.com/warproute/warproute/cmd/warproute"))
	var nics []guest.EmulatedNIC
	for i, model := range models {
		p := &pair{machine: m, number: i + 1, model: model}
		for side := range 2 {
			ns, err := lab.New(fmt.Sprintf("%s-%d", model, side))
			require.NoError(t, err)
			t.Cleanup(func() { ns.Close() })
			p.hosts[side] = ns
			p.nics[side] = guest.EmulatedNIC{
				Model: model, Name: strings.ReplaceAll(fmt.Sprintf("%s-%d", model, side), "virtio-iommu", "iommu"),
				MAC: net.HardwareAddr{0x52, 0x54, 0, 0, byte(i + 1), byte(side)}, Host: ns, Tap: tap, Queues: 4, // two for the processors, two for XDP
			}
		}
		nics = append(nics, p.nics[:]...)
		m.pairs = append(m.pairs, p)
	}
	g, err := guest.VM{Kernel: filepath.Join(directory, kernel), QEMU: filepath.Join(directory, "qemu"), CPUs: 2, NICs: nics}.Start()
	require.NoError(t, err)
	m.Guest = g
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := g.Run("dmesg", "--level", "emerg,alert,crit,err,warn")
			t.Logf("the guest's kernel wrote:\n%s", log)
		}
		g.Close()
	})
	m.sh(t, "sysctl -q net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.accept_ra=0")
	for _, p := range m.pairs {
		p.load(t)
		p.configureHosts(t)
	}
	return m
}

// load loads the pair's driver and configures the ports.
func (p *pair) load(t *testing.T) {
	t.Helper()
	p.sh(t, "modprobe "+p.model.Module())
	require.NoError(t, p.NameNICs(p.nics[:]...))
	switch p.model {
	case guest.VirtioIOMMU: // zero-copy needs that the driver adds no queues for XDP
		p.sh(t, fmt.Sprintf("for port in %s; do ethtool -L $port combined 4; done", p.ports()))
	case guest.IGB: // by default, only addresses select the queue of UDP packets
		p.sh(t, fmt.Sprintf("for port in %s; do ethtool -N $port rx-flow-hash udp4 sdfn; ethtool -N $port rx-flow-hash udp6 sdfn; done", p.ports()))
	}
	p.configure(t)
}

// configure sets the ports up and adds their addresses.
func (p *pair) configure(t *testing.T) {
	t.Helper()
	var script strings.Builder
	for side := range 2 {
		fmt.Fprintf(&script, "ip link set %s up\n", p.port(side))
		for _, f := range families {
			fmt.Fprintf(&script, "ip addr replace "+f.network+" dev %s\n", p.number, side, 1, p.port(side))
		}
	}
	p.sh(t, script.String())
}

func (p *pair) configureHosts(t *testing.T) {
	t.Helper()
	for side, host := range p.hosts {
		for _, f := range families {
			require.NoError(t, host.AddAddr(tap, netip.MustParsePrefix(fmt.Sprintf(f.network, p.number, side, 2))))
			require.NoError(t, host.AddRoute(netip.MustParsePrefix(fmt.Sprintf(f.all, p.number, 1-side)), netip.MustParseAddr(fmt.Sprintf(f.host, p.number, side, 1))))
		}
		var err error
		p.taps[side], err = host.MAC(tap)
		require.NoError(t, err)
	}
}

// setMTU sets the MTU of the ports and of their hosts. It reports whether the driver accepts it.
func (p *pair) setMTU(t *testing.T, mtu int) bool {
	t.Helper()
	for side, host := range p.hosts {
		if _, err := p.Run("ip", "link", "set", p.port(side), "mtu", fmt.Sprint(mtu)); err != nil {
			return false
		}
		if out, err := host.Run("ip", "link", "set", tap, "mtu", fmt.Sprint(mtu)); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	p.configure(t) // Linux deletes IPv6 addresses below an MTU of 1,280
	return true
}

// answers waits until the far host answers pings of both families in both directions.
func (p *pair) answers(t *testing.T, patience time.Duration) {
	t.Helper()
	end := time.Now().Add(patience)
	for from := range 2 {
		for family := range families {
			to := p.addr(family, 1-from, 2)
			for {
				_, err := lab.Ping(p.hosts[from], to, lab.PingOptions{Count: 1, Timeout: 300 * time.Millisecond})
				if err == nil {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("%s, Linux %s: %v", p.model, p.kernel, err)
				}
			}
		}
	}
}

// sh runs a script in the guest. A failure ends the test.
func (m *machine) sh(t *testing.T, script string) string {
	t.Helper()
	out, err := m.Run("sh", "-ec", script)
	require.NoError(t, err)
	return out
}

// full reports whether all tests run (make test-nics).
func full() bool { return os.Getenv("WARPROUTE_NICS") == "full" }
