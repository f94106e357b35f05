package systemd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab/guest"
	"github.com/warproute/warproute/internal/require"
)

// A border router learns routes from two upstreams.
func TestBorderRouterHowTo(t *testing.T) {
	needFullScale(t)
	buildPackages(t)
	guest.VM{Memory: 1536, CPUs: 2}.Test(t, 600*time.Second, howtoModules, func(t *testing.T, _ string) {
		newBorderSite(t).follow("frr-border-router.md", "", "")
	})
}

func newBorderSite(t *testing.T) *site {
	t.Helper()
	s := newSite(t, `
host1 eth0 198.51.100.2/24 -- edge1 lan0 198.51.100.1/24
edge1 wan1 192.0.2.1/24 -- up1 eth0 192.0.2.2/24
edge1 wan2 203.0.113.1/24 -- up2 eth0 203.0.113.2/24
host1 route default 198.51.100.1`, "edge1")
	s.copyPackage(versions[0], "edge1")
	s.sh("edge1", `echo 'watchfrr_options="--restart-timeout 120"' >>/etc/frr/daemons`) // emulated, vtysh needs more than 20 s
	for i, name := range []string{"up1", "up2"} {
		s.startUpstream(name, i)
	}
	return s
}

// startUpstream starts BIRD as an upstream with a few thousand routes. The network 100.64.0.0/16 is behind each.
func (s *site) startUpstream(name string, i int) {
	s.t.Helper()
	addrs := [2][2]string{{"192.0.2.2", "192.0.2.1"}, {"203.0.113.2", "203.0.113.1"}}[i]
	var config strings.Builder
	fmt.Fprintf(&config, "log stderr all;\nrouter id %s;\nprotocol device {}\nprotocol kernel { ipv4 { import none; export where source = RTS_BGP; }; }\n", addrs[0])
	fmt.Fprintf(&config, "protocol bgp { local %s as %d; neighbor %s as 64500; graceful restart on; ipv4 { import all; export where source = RTS_STATIC; }; }\n", addrs[0], 64501+i, addrs[1])
	config.WriteString("protocol static { ipv4;\nroute 100.64.0.0/16 unreachable;\n")
	for n := range 3000 {
		fmt.Fprintf(&config, "route 20.%d.%d.0/24 unreachable;\n", n/256, n%256)
	}
	config.WriteString("}\n")
	m := s.machines[name]
	require.NoError(s.t, m.Write("/run/"+name+".conf", config.String()))
	s.sh(name, "ip addr add 100.64.1.1/32 dev lo")
	require.NoError(s.t, m.Start("bird -f -c /run/"+name+".conf -s /run/"+name+".ctl"))
}
