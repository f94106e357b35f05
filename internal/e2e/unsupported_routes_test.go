package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
)

// Packets to routes without a port are dropped: doctor and the router at its start list these routes,
// the log has later ones, and `show routes` marks them.
func TestRoutesWithoutAPortAreListed(t *testing.T) {
	top := newTopology(t, lab.VethOptions{})
	ip(t, top.Router,
		"link add wg0 type veth peer wg1", "link set wg1 up", "addr add 10.72.0.1/24 dev wg0", "link set wg0 up",
		"route add 10.73.0.0/24 dev wg0", "route add 10.74.0.0/24 via 10.72.0.9",
		"route add 41.0.0.0/24 encap seg6 mode encap segs fd00::9 dev "+lab.WAN,
	)
	ports := []string{"--port", lab.LAN, "--port", lab.WAN}
	out := must(t, top.Router, program, append([]string{"doctor"}, ports...)...)
	for _, want := range []string{
		"3 over wg0 (10.72.0.0/24, 10.73.0.0/24, 10.74.0.0/24): routes leave by an interface that is not a port",
		"1 over " + lab.WAN + " (41.0.0.0/24): routes with encapsulation",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("doctor does not say %q:\n%s", want, out)
		}
	}
	r := startRouter(t, top.Router, ports...)
	if log := r.Out.String(); !strings.Contains(log, `interface=wg0 routes=3 prefixes="10.72.0.0/24, 10.73.0.0/24, 10.74.0.0/24" hint="add the interface as a port`) {
		t.Errorf("the router does not list the routes at its start:\n%s", log)
	}
	for _, want := range []struct{ route, text string }{
		{"10.73.0.0/24", "no port      boot      direct on wg0 (not a port)"},
		{"10.74.0.0/24", "no port      boot      10.72.0.9 on wg0 (not a port)"},
		{"41.0.0.0/24", "not supported (encap)  boot      direct on " + lab.WAN},
	} {
		found := false
		for line := range strings.Lines(r.command("show", "routes")()) {
			found = found || strings.HasPrefix(line, want.route+" ") && strings.HasSuffix(strings.TrimSpace(line), want.text)
		}
		if !found {
			t.Errorf("show routes does not show %s as %q:\n%s", want.route, want.text, r.command("show", "routes")())
		}
	}
	if out := r.command("show", "routes", "--json")(); !strings.Contains(out, `"unsupported":"no_port"`) || !strings.Contains(out, `"unsupported":"encap"`) {
		t.Errorf("show routes --json has no field for it:\n%s", out)
	}
	// The running router and a file with the same routes agree.
	file := t.TempDir() + "/routes"
	writeFile(t, file, must(t, top.Router, "ip", "route"))
	running, offline := r.command("route", "lookup", "41.0.0.1")(), must(t, top.Router, program, "route", "lookup", "--routes", file, "41.0.0.1")
	if running != offline || !strings.Contains(running, "not supported (encap)") {
		t.Errorf("41.0.0.1: running\n%soffline\n%s", running, offline)
	}
}

// Linux and the router treat unicast packets on routes of type multicast alike: IPv4 drops them
// silently, IPv6 forwards them.
func TestMulticastRoutesAreReported(t *testing.T) {
	for _, linux := range []bool{true, false} {
		top := newTopology(t, lab.VethOptions{})
		ip(t, top.Server, "addr add 20.0.24.1/32 dev lo", "addr add 20.0.25.1/32 dev lo", "addr add fd24::1/128 dev lo nodad")
		ip(t, top.Router, "route add 20.0.0.0/8 via "+lab.Server4.Addr().String()) // the next shorter prefix
		ip(t, top.Router, "route add multicast 20.0.24.0/24 dev "+lab.WAN, "route add multicast fd24::/64 via "+lab.Server6.Addr().String()+" dev "+lab.WAN)
		if linux {
			for _, setting := range []string{"net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"} {
				sysctl(t, top.Router, setting, "1")
			}
		} else {
			r := startRouter(t, top.Router, "--port", lab.LAN, "--port", lab.WAN)
			if !strings.Contains(r.Out.String(), "prefixes=20.0.24.0/24") {
				t.Errorf("the route is not warned of:\n%s", r.Out)
			}
			defer func() {
				if r.Drops("blackhole") == 0 {
					t.Error("the packets are dropped for another reason")
				}
			}()
		}
		eventually(t, 5*time.Second, "packets pass", func() bool {
			_, err6 := top.Client.Run("ping", "-c1", "-W0.3", lab.Server6.Addr().String())
			_, err4 := top.Client.Run("ping", "-c1", "-W0.3", "20.0.25.1")
			return err4 == nil && err6 == nil
		})
		out4, err4 := top.Client.Run("ping", "-c2", "-i0.2", "-W0.5", "20.0.24.1")
		_, err6 := top.Client.Run("ping", "-c2", "-i0.2", "-W1", "fd24::1")
		if err4 == nil || strings.Contains(out4, "From ") {
			t.Errorf("linux %v: IPv4 to a route of type multicast: %v %s", linux, err4, out4)
		}
		if err6 != nil {
			t.Errorf("linux %v: IPv6 to a route of type multicast: %v", linux, err6)
		}
	}
}
