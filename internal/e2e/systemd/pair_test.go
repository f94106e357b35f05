package systemd

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab/document"
	"github.com/warproute/warproute/internal/lab/guest"
)

// Two gateways are one for their peer. Both are set up by the how-to of a single gateway.
func TestHighAvailabilityHowTo(t *testing.T) {
	needFullScale(t)
	buildPackages(t)
	guest.VM{Memory: 1536, CPUs: 2}.Test(t, 600*time.Second, howtoModules, func(t *testing.T, _ string) {
		s := newPairSite(t)
		s.follow("strongswan-gateway.md", "Steps", "Steps")
		document.Follow(t, filepath.Join(howtos, "strongswan-gateway.md"), "Steps", "Steps", map[string]document.Host{"gw1": s.machines["gw1b"], "gw2": s.machines["gw2"]})
		s.follow("high-availability.md", "", "")
	})
}

// newPairSite builds a network in which the addresses of the gateway belong to none of two.
func newPairSite(t *testing.T) *site {
	t.Helper()
	s := newGatewaySite(t, "gw1", "gw1b", "gw2")
	s.sh("gw1", `ip addr del 10.7.0.1/24 dev lan0; ip addr add 10.7.0.11/24 dev lan0
		ip addr del 192.0.2.1/24 dev wan0; ip addr add 192.0.2.11/24 dev wan0; ip route replace default via 192.0.2.254`)
	for _, gateway := range []string{"gw1", "gw1b"} { // there is no journal
		s.sh(gateway, `echo 'DAEMON_ARGS="--log-console --log-detail"' >/etc/default/keepalived`)
	}
	return s
}
