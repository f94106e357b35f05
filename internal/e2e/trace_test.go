package e2e

import (
	"encoding/json"
	"io"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// linuxRoute is the result of `ip route get fibmatch`: prefix and paths of the route, or an error.
type linuxRoute struct {
	prefix string
	ways   map[string]bool // "gateway device"
	err    string
}

func routeGet(t *testing.T, ns *lab.Namespace, addr string) (r linuxRoute) {
	t.Helper()
	out, err := ns.Run("ip", "-json", "route", "get", "fibmatch", addr)
	if err != nil {
		return linuxRoute{err: out}
	}
	type hop struct {
		Gateway string `json:"gateway"`
		Dev     string `json:"dev"`
	}
	var routes []struct {
		Dst string `json:"dst"`
		hop
		Nexthops []hop `json:"nexthops"`
	}
	if err := json.Unmarshal([]byte(out), &routes); err != nil || len(routes) != 1 {
		t.Fatalf("ip route get fibmatch %s: %v: %s", addr, err, out)
	}
	hops := routes[0].Nexthops
	if len(hops) == 0 {
		hops = []hop{routes[0].hop}
	}
	r.prefix, r.ways = routes[0].Dst, map[string]bool{}
	for _, h := range hops {
		r.ways[h.Gateway+" "+h.Dev] = true
	}
	if r.prefix == "default" {
		r.prefix = "0.0.0.0/0"
		if netip.MustParseAddr(addr).Is6() {
			r.prefix = "::/0"
		}
	}
	return r
}

// A trace names the same route as Linux, and the packet's actual egress.
func TestTraceNamesTheSameRouteAsLinux(t *testing.T) {
	f := newFork(t)
	f.ip(t,
		"route add default via 10.8.0.2", "route add 10.50.0.0/16 via 10.8.0.2", "route add 10.50.1.0/24 via 10.9.0.2", "route add 10.50.1.128/32 via 10.8.0.2",
		"route add 10.60.0.0/16 nexthop via 10.8.0.2 nexthop via 10.9.0.2 weight 2",
		"nexthop add id 7 via 10.9.0.2 dev wan1", "route add 10.61.0.0/16 nhid 7",
		"route add unreachable 10.51.0.0/16", "route add blackhole 10.52.0.0/16", "route add prohibit 10.53.0.0/16",
		"-6 route add fd50::/48 via fd08::2", "-6 route add fd50:0:0:1::/64 via fd09::2",
		"-6 route add fd60::/64 nexthop via fd08::2 nexthop via fd09::2", "-6 route add unreachable fd51::/64",
	)
	// Linux's errors for routes without a next hop, and the drop reasons.
	errors := map[string]string{"No route to host": "unreachable", "Invalid argument": "blackhole", "Permission denied": "prohibit", "Network is unreachable": "no_route"}
	dsts := []string{
		"10.50.0.1", "10.50.1.1", "10.50.1.128", "10.60.0.1", "10.60.0.2", "10.60.0.3", "10.60.0.4", "10.61.0.1", "203.0.113.1", "10.8.0.2", "10.9.0.2",
		"10.51.0.1", "10.52.0.1", "10.53.0.1", "fd50::1", "fd50:0:0:1::1", "fd60::1", "fd60::2", "fd60::3", "fd51::1", "fd99::1", "fd08::2",
	}
	server, other := startWatch(t, f.Server, lab.ServerLink), startWatch(t, f.other, "other0")
	time.Sleep(effect)
	l := startLoad(t, f.Topology, 2000, dsts...)
	out, err := exec.Command(program, "trace", "--socket", f.router.Socket, "--json", "--count", strconv.Itoa(3*len(dsts)), "--port", lab.LAN, "udp port "+strconv.Itoa(loadPort)).Output()
	if err != nil {
		t.Fatalf("trace: %v", err)
	}
	l.end()
	traces := map[string]status.Trace{}
	for lines := json.NewDecoder(strings.NewReader(string(out))); lines.More(); {
		var x status.Trace
		require.NoError(t, lines.Decode(&x))
		traces[x.Destination.String()] = x
	}
	for i, dst := range dsts {
		x, ok := traces[dst]
		if !ok {
			t.Errorf("%s: no trace", dst)
			continue
		}
		if x.Port != lab.LAN || x.Engine != "cpu" || x.ChunkPackets < 1 || x.Changed != "" || x.Times.Total <= 0 || x.IPsec != nil {
			t.Errorf("%s: %+v", dst, x)
		}
		linux := routeGet(t, f.Router, dst)
		if linux.err != "" {
			reason := ""
			for text, r := range errors {
				if strings.Contains(linux.err, text) {
					reason = r
				}
			}
			if x.Verdict != "drop" || x.Reason != reason || x.Description == "" || x.Hint == "" {
				t.Errorf("%s: Linux says %q, the trace %s as %s", dst, linux.err, x.Verdict, x.Reason)
			}
			continue
		}
		if x.Route == nil || x.NextHop == nil || x.NextHop.Neighbor == nil {
			t.Errorf("%s: Linux has %s; the trace %+v", dst, linux.prefix, x)
			continue
		}
		if p := x.Route.Prefix.String(); strings.TrimSuffix(p, "/32") != linux.prefix && p != linux.prefix {
			t.Errorf("%s: by %s; Linux takes %s", dst, p, linux.prefix)
		}
		way := " " + x.Egress // of a link
		if len(x.Route.Paths) > 0 && x.Route.Paths[0].Via.IsValid() {
			way = x.NextHop.Neighbor.Address.String() + way
		}
		if !linux.ways[way] || x.NextHop.Neighbor.Dev != x.Egress {
			t.Errorf("%s: by %q; Linux takes one of %v", dst, way, linux.ways)
		}
		if many := len(linux.ways) > 1; many != (x.NextHop.Members == 2) {
			t.Errorf("%s: a group of %d; Linux has %d ways", dst, x.NextHop.Members, len(linux.ways))
		}
		at := map[string]*watch{lab.WAN: server, "wan1": other}[x.Egress]
		if at == nil || len(at.of(uint32(i))) == 0 || len(server.of(uint32(i)))+len(other.of(uint32(i))) != len(at.of(uint32(i))) {
			t.Errorf("%s: by %q, and %d packets arrived at the server, %d at the other", dst, x.Egress, len(server.of(uint32(i))), len(other.of(uint32(i))))
		}
	}
}

// The text of a trace explains a queued packet and one without a route.
func TestTraceExplainsVerdicts(t *testing.T) {
	top, r := startTwoPorts(t)
	body, err := socket.Open(t.Context(), r.Socket, "/trace?count=40&filter=udp")
	require.NoError(t, err)
	defer body.Close()
	time.Sleep(100 * time.Millisecond) // a worker that sleeps looks for taps when it wakes
	l := startLoad(t, top, 500, "10.8.0.77", "172.16.0.1")
	var out strings.Builder
	for lines := json.NewDecoder(body); ; {
		var x status.Trace
		if err := lines.Decode(&x); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		require.NoError(t, status.WriteTrace(&out, x))
	}
	l.end()
	for _, want := range []string{
		"  lan0 queue 0, worker 0, chunk of ", "packet       UDP 10.7.0.2:1000 > 10.8.0.77:7777, 62 bytes\n",
		"route        10.8.0.0/24 dev wan0 proto kernel\n", "neighbor     10.8.0.77 on wan0, unresolved, ",
		"verdict      waits for its neighbor to be resolved\n", "verdict      dropped, no_route: no route covers the destination\n",
		"destination  172.16.0.1\n  route        none\n", "times        wait ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
