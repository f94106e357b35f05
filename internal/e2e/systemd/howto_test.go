package systemd

import (
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab/document"
	"github.com/warproute/warproute/internal/lab/guest"
	"github.com/warproute/warproute/internal/require"
)

// Every how-to is followed by a test, here or in another package, and its markings are right.
func TestHowTosAreTested(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(howtos, "*.md"))
	require.NoError(t, err)
	var tests strings.Builder
	for _, pattern := range []string{"../*_test.go", "../*/*_test.go"} {
		sources, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, source := range sources {
			text, err := os.ReadFile(source)
			require.NoError(t, err)
			tests.Write(text)
		}
	}
	for _, file := range files {
		if name := filepath.Base(file); !strings.Contains(tests.String(), name+`"`) {
			t.Errorf("no test names %s", name)
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if steps, err := document.Parse(string(text)); err != nil || len(steps) == 0 {
			t.Errorf("%s has %d steps: %v", file, len(steps), err)
		}
	}
	if len(files) == 0 {
		t.Error("there are no how-tos")
	}
}

// needFullScale skips a test that takes minutes in a guest.
func needFullScale(t *testing.T) {
	t.Helper()
	if !guest.Inside() && os.Getenv("WARPROUTE_SCALE") != "full" {
		t.Skip("WARPROUTE_SCALE=full runs it (make test-scale)")
	}
}

var howtoModules = []string{"veth", "bridge", "tun", "xfrm_user", "esp4", "drbg", "seqiv"}

// A gateway is set up, monitored, upgraded and removed.
func TestGatewayHowTos(t *testing.T) {
	needFullScale(t)
	buildPackages(t)
	guest.VM{Memory: 1536}.Test(t, 600*time.Second, howtoModules, func(t *testing.T, _ string) {
		s := newGatewaySite(t, "gw1", "gw2", "monitor")
		seen := s.rejectCleartext("internet", "gw1", "gw2")
		s.follow("strongswan-gateway.md", "", "Check")
		s.blocksAtBoot(seen)
		s.follow("monitoring.md", "", "")
		s.copyPackage(versions[1], "gw1")
		s.follow("upgrade.md", "", "")
		s.follow("strongswan-gateway.md", "Undo", "")
	})
}

// newGatewaySite builds a network with gateways, of which some run systemd.
func newGatewaySite(t *testing.T, systemd ...string) *site {
	t.Helper()
	s := newSite(t, `
host1 eth0 10.7.0.2/24 -- lan host1
gw1 lan0 10.7.0.1/24 -- lan gw1
gw1b lan0 10.7.0.12/24 -- lan gw1b
gw1 wan0 192.0.2.1/24 -- internet gw1
gw1b wan0 192.0.2.12/24 -- internet gw1b
gw2 wan0 198.51.100.1/24 -- internet gw2 198.51.100.254/24
host2 eth0 10.8.0.2/24 -- gw2 lan0 10.8.0.1/24
gw1 mgmt0 10.9.0.1/24 -- monitor eth0 10.9.0.2/24
internet sysctl net.ipv4.ip_forward 1
host1 route default 10.7.0.1
host2 route default 10.8.0.1
gw2 route default 198.51.100.254`, systemd...)
	s.bridge("lan", "host1", "gw1", "gw1b")
	s.bridge("internet", "gw1", "gw1b")
	s.sh("internet", "ip addr add 192.0.2.254/24 dev br0")
	for _, gateway := range []string{"gw1", "gw1b"} {
		s.sh(gateway, "ip route add default via 192.0.2.254")
	}
	s.copyPackage(versions[0], systemd...)
	for _, host := range systemd { // there is no journal
		require.NoError(t, s.machines[host].Write("/etc/strongswan.d/lab.conf", "charon-systemd {\n\tfilelog {\n\t\tlab {\n\t\t\tpath = /run/lab/charon\n\t\t\tdefault = 1\n\t\t\tflush_line = yes\n\t\t}\n\t}\n}\n"))
	}
	return s
}

// cleartext is what listeners outside the gateways do with packets of the protected networks.
type cleartext struct {
	expected atomic.Bool // count them, instead of failing the test
	count    atomic.Int64
}

// rejectCleartext fails the test if a link of a namespace has packets of the protected networks.
func (s *site) rejectCleartext(name string, links ...string) *cleartext {
	s.t.Helper()
	seen := new(cleartext)
	for _, link := range links {
		stop, err := s.machines[name].ns.Listen(link, func(frame []byte, _ bool) {
			if len(frame) < 34 || frame[12] != 8 || frame[13] != 0 {
				return
			}
			src, dst := [4]byte(frame[26:]), [4]byte(frame[30:])
			switch {
			case src[0] != 10 && dst[0] != 10:
			case seen.expected.Load():
				seen.count.Add(1)
			default:
				s.t.Errorf("%s, %s: cleartext from %v to %v", name, link, netip.AddrFrom4(src), netip.AddrFrom4(dst))
			}
		})
		require.NoError(s.t, err)
		s.t.Cleanup(stop)
	}
	return seen
}

// blocksAtBoot starts gw1 as a boot does, without strongSwan at first: nothing leaves in cleartext, in either direction. Without
// the policies of ipsec-block it would, and the listeners would see it.
func (s *site) blocksAtBoot(seen *cleartext) {
	s.t.Helper()
	const flush = "ip xfrm policy flush; ip xfrm state flush"
	s.sh("gw1", "systemctl stop strongswan warproute ipsec-block; "+flush)
	s.sh("gw1", "systemctl start ipsec-block; systemctl start warproute")
	s.sh("host1", "! ping -c 5 -i 0.2 -W 1 10.8.0.2")

	// gw2 has lost its policies, and sends cleartext. gw1 does not deliver it.
	seen.expected.Store(true)
	s.sh("gw2", "systemctl stop strongswan; "+flush)
	s.sh("internet", "ip route add 10.7.0.0/24 via 192.0.2.1")
	before := s.dropped("gw1", "xfrm_in_pol_block")
	s.sh("host2", "! ping -c 5 -i 0.2 -W 1 10.7.0.2")
	if n := s.dropped("gw1", "xfrm_in_pol_block") - before; n < 5 {
		s.t.Errorf("gw1 dropped %d packets that arrived in cleartext, want 5", n)
	}
	s.sh("internet", "ip route del 10.7.0.0/24")
	s.sh("gw2", "systemctl restart ipsec-block; systemctl start strongswan")
	if seen.count.Swap(0) == 0 {
		s.t.Error("the listeners did not see the cleartext of gw2")
	}

	s.sh("gw1", "ip xfrm policy flush")
	s.sh("host1", "! ping -c 5 -i 0.2 -W 1 10.8.0.2")
	if seen.count.Load() == 0 {
		s.t.Error("without ipsec-block nothing leaves in cleartext: it proves nothing")
	}
	s.sh("gw1", "systemctl restart ipsec-block")
	time.Sleep(time.Second) // for packets in flight
	seen.expected.Store(false)
	s.sh("host1", "! ping -c 5 -i 0.2 -W 1 10.8.0.2")
	s.sh("gw1", "systemctl start strongswan")
	s.sh("host1", "ping -c 3 -w 90 10.8.0.2")
}

// dropped returns how many packets the router of a host has dropped for a reason.
func (s *site) dropped(host, reason string) int {
	s.t.Helper()
	out, err := s.machines[host].Run("warproute show drops | awk '$1 == \"" + reason + "\" {gsub(\",\", \"\", $2); print $2}'")
	require.NoError(s.t, err)
	n, _ := strconv.Atoi(strings.TrimSpace(out)) // no line: none
	return n
}
