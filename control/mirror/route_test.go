package mirror

import "testing"

// known lists neighbors of the gateways in the cases below.
var known = []string{
	"neigh add 10.1.0.2 dev lan lladdr 02:00:00:00:01:02",
	"neigh add 10.1.0.3 dev lan lladdr 02:00:00:00:01:03",
	"neigh add 10.2.0.2 dev wan lladdr 02:00:00:00:02:02",
	"neigh add fd01::2 dev lan lladdr 02:00:00:00:01:02",
	"neigh add fd01::3 dev lan lladdr 02:00:00:00:01:03",
	"neigh add fd02::2 dev wan lladdr 02:00:00:00:02:02",
	"neigh add fe80::2 dev wan lladdr 02:00:00:00:02:fe",
}

const (
	lan2 = "lan 02:00:00:00:01:02"
	lan3 = "lan 02:00:00:00:01:03"
	wan2 = "wan 02:00:00:00:02:02"
	wanL = "wan 02:00:00:00:02:fe"
)

func TestRoutes(t *testing.T) {
	for _, test := range []struct {
		name string
		ip   []string
		want []string // address, outcome
	}{
		{"a gateway", []string{"route add 20.0.0.0/8 via 10.1.0.2", "route add fd20::/16 via fd01::2"},
			[]string{"20.1.2.3", lan2, "fd20::1", lan2, "21.0.0.1", "none", "fd21::1", "none"}},
		{"a gateway that has not answered", []string{"route add 20.0.0.0/8 via 10.1.0.77", "route add fd20::/16 via fd01::77"},
			[]string{"20.1.2.3", "lan ?", "fd20::1", "lan ?"}},
		{"the longest prefix wins", []string{"route add default via 10.1.0.2", "route add 20.0.0.0/8 via 10.1.0.3", "route add 20.1.0.0/16 via 10.2.0.2", "route add 20.1.1.1 via 10.1.0.2"},
			[]string{"8.8.8.8", lan2, "20.2.0.0", lan3, "20.1.0.0", wan2, "20.1.1.1", lan2, "20.1.1.2", wan2}},
		{"the address of a prefix is not its name", []string{"route add 20.0.0.0/8 via 10.1.0.2", "route add 20.0.0.0/32 via 10.2.0.2", "route del 20.0.0.0/8"},
			[]string{"20.0.0.0", wan2, "20.0.0.1", "none"}},
		{"types", []string{
			"route add blackhole 20.0.0.0/8", "route add unreachable 21.0.0.0/8", "route add prohibit 22.0.0.0/8", "route add local 23.0.0.1 dev lo",
			"route add broadcast 24.0.0.1 dev lan table local",
			"route add blackhole fd20::/16", "route add unreachable fd21::/16", "route add prohibit fd22::/16", "route add local fd23::1 dev lo",
			"route add anycast fd24::1 dev lan table local"},
			[]string{"20.0.0.1", "blackhole", "21.0.0.1", "unreachable", "22.0.0.1", "prohibit", "23.0.0.1", "local", "24.0.0.1", "local",
				"fd20::1", "blackhole", "fd21::1", "unreachable", "fd22::1", "prohibit", "fd23::1", "local", "fd24::1", "local"}},
		{"throw suppresses what is less specific", []string{"route add default via 10.1.0.2", "route add throw 20.0.0.0/8", "route add ::/0 via fd01::2", "route add throw fd20::/16"},
			[]string{"20.0.0.1", "none", "21.0.0.1", lan2, "fd20::1", "none", "fd21::1", lan2}},
		{"on a link", []string{"route add 20.0.0.0/8 dev lan", "neigh add 20.0.0.5 dev lan lladdr 02:00:00:00:00:05", "route add fd20::/16 dev lan"},
			[]string{"20.0.0.1", "lan ?", "20.0.0.5", "lan 02:00:00:00:00:05", "fd20::1", "lan ?"}},
		{"a gateway off any prefix, but on the link", []string{"route add 20.0.0.0/8 via 30.0.0.1 dev wan onlink", "neigh add 30.0.0.1 dev wan lladdr 02:00:00:00:00:30"},
			[]string{"20.0.0.1", "wan 02:00:00:00:00:30", "30.0.0.1", "none"}},
		{"IPv4 via IPv6", []string{"route add 20.0.0.0/8 via inet6 fe80::2 dev wan", "route add 21.0.0.0/8 via inet6 fd01::2"},
			[]string{"20.0.0.1", wanL, "21.0.0.1", lan2}},
		{"a link-local gateway", []string{"route add ::/0 via fe80::2 dev wan"},
			[]string{"2001:db8::1", wanL}},
		{"an MTU of the route", []string{
			"route add 20.0.0.0/8 via 10.1.0.2 mtu 1400", "route add 20.1.0.0/16 via 10.1.0.2 mtu lock 1300", "route add 20.2.0.0/16 via 10.1.0.2",
			"route add fd20::/16 via fd01::2 mtu 1400", "route add fd21::/16 via fd01::2 mtu lock 1300", "route add fd22::/16 via fd01::2"},
			[]string{"20.0.0.1", lan2 + " mtu 1400", "20.1.0.1", lan2 + " mtu 1300", "20.2.0.1", lan2,
				"fd20::1", lan2 + " mtu 1400", "fd21::1", lan2 + " mtu 1300", "fd22::1", lan2}},
		{"an MTU of many paths, and of neighbors", []string{
			"route add 20.0.0.0/8 mtu 1400 nexthop via 10.1.0.2 nexthop via 10.2.0.2", "route add fd20::/16 mtu 1400 nexthop via fd01::2 nexthop via fd02::2",
			"route add 21.0.0.0/8 dev lan mtu 1300", "neigh add 21.0.0.5 dev lan lladdr 02:00:00:00:00:05"},
			[]string{"20.0.0.1", lan2 + "*128 " + wan2 + "*128 mtu 1400", "fd20::1", lan2 + "*128 " + wan2 + "*128 mtu 1400",
				"21.0.0.1", "lan ? mtu 1300", "21.0.0.5", "lan 02:00:00:00:00:05 mtu 1300"}},
		{"an MTU below what every way must carry", []string{"route add 20.0.0.0/8 via 10.1.0.2 mtu 20", "route add fd20::/16 via fd01::2 mtu 1000"},
			[]string{"20.0.0.1", lan2 + " mtu 68", "fd20::1", lan2 + " mtu 1280"}},
		{"an MTU changed, and taken away", []string{
			"route add 20.0.0.0/8 via 10.1.0.2 mtu 1400", "route replace 20.0.0.0/8 via 10.1.0.2 mtu 1300", "route add 21.0.0.0/8 via 10.1.0.2 mtu 1400", "route replace 21.0.0.0/8 via 10.1.0.2",
			"route add 22.0.0.0/8 via 10.1.0.2 mtu 1400", "route append 22.0.0.0/8 via 10.1.0.2 mtu 1300", "route del 22.0.0.0/8 via 10.1.0.2 mtu 1400",
			"route add fd20::/16 via fd01::2 mtu 1400", "route replace fd20::/16 via fd01::2 mtu 1300", "route add fd21::/16 via fd01::2 mtu 1400", "route replace fd21::/16 via fd01::2",
			"route add fd22::/16 mtu 1400 nexthop via fd01::2 nexthop via fd02::2", "route del fd22::/16 via fd01::2"},
			[]string{"20.0.0.1", lan2 + " mtu 1300", "21.0.0.1", lan2, "22.0.0.1", lan2 + " mtu 1300",
				"fd20::1", lan2 + " mtu 1300", "fd21::1", lan2, "fd22::1", wan2 + " mtu 1400"}},
		{"an MTU that Linux changes in silence, as that of the link does", []string{
			"route add fd20::/16 dev oob mtu 1400", "route add fd21::/16 dev oob mtu 1400 metric 5", "route add fd21::/16 dev wan metric 6", "route add fd22::/16 via fd03::2 mtu 1400",
			"link set oob mtu 1300", "route del fd20::/16", "route del fd21::/16 metric 5", "route del fd22::/16"},
			[]string{"fd20::1", "none", "fd21::1", "wan ?", "fd22::1", "none"}},
		{"a link that is no port", []string{"route add 20.0.0.0/8 via 10.3.0.2", "route add fd20::/16 via fd03::2"},
			[]string{"20.0.0.1", "no port", "fd20::1", "no port"}},
		{"multipath by weight", []string{
			"route add 20.0.0.0/8 nexthop via 10.1.0.2 weight 1 nexthop via 10.2.0.2 weight 3",
			"route add fd20::/16 nexthop via fd01::2 weight 3 nexthop via fd02::2 weight 1"},
			[]string{"20.0.0.1", lan2 + "*64 " + wan2 + "*192", "fd20::1", lan2 + "*192 " + wan2 + "*64"}},
		{"multipath, partly not over ports", []string{"route add 20.0.0.0/8 nexthop via 10.1.0.2 nexthop via 10.3.0.2 nexthop via 10.2.0.2"},
			[]string{"20.0.0.1", lan2 + "*128 " + wan2 + "*128"}},
		{"the lowest metric wins, whatever the order", []string{
			"route add 20.0.0.0/8 via 10.1.0.2 metric 20", "route add 20.0.0.0/8 via 10.1.0.3 metric 10", "route add 20.0.0.0/8 via 10.2.0.2 metric 30",
			"route add fd20::/16 via fd01::2 metric 20", "route add fd20::/16 via fd01::3 metric 10", "route add fd20::/16 via fd02::2 metric 30"},
			[]string{"20.0.0.1", lan3, "fd20::1", lan3}},
		{"the next metric follows", []string{
			"route add 20.0.0.0/8 via 10.1.0.2 metric 20", "route add 20.0.0.0/8 via 10.1.0.3 metric 10", "route del 20.0.0.0/8 metric 10",
			"route add fd20::/16 via fd01::2 metric 20", "route add fd20::/16 via fd01::3 metric 10", "route del fd20::/16 metric 10"},
			[]string{"20.0.0.1", lan2, "fd20::1", lan2}},
		{"the table local wins", []string{"route add 20.0.0.1 via 10.1.0.2 metric 0", "route add local 20.0.0.1 dev lo table local metric 50"},
			[]string{"20.0.0.1", "local"}},
		{"replace", []string{
			"route add 20.0.0.0/8 via 10.1.0.2", "route replace 20.0.0.0/8 via 10.2.0.2",
			"route add fd20::/16 via fd01::2", "route replace fd20::/16 via fd02::2",
			"route replace 21.0.0.0/8 via 10.1.0.2", "route replace fd21::/16 via fd01::2"},
			[]string{"20.0.0.1", wan2, "fd20::1", wan2, "21.0.0.1", lan2, "fd21::1", lan2}},
		{"replace by another type, and back", []string{
			"route add 20.0.0.0/8 via 10.1.0.2", "route replace blackhole 20.0.0.0/8", "route replace 20.0.0.0/8 via 10.2.0.2",
			"route add 21.0.0.0/8 via 10.1.0.2", "route replace blackhole 21.0.0.0/8",
			"route add fd20::/16 via fd01::2", "route replace blackhole fd20::/16 dev lo"},
			[]string{"20.0.0.1", wan2, "21.0.0.1", "blackhole", "fd20::1", "blackhole"}},
		{"IPv4 append waits behind", []string{"route add 20.0.0.0/8 via 10.1.0.2", "route append 20.0.0.0/8 via 10.2.0.2"},
			[]string{"20.0.0.1", lan2}},
		{"IPv4 append takes over", []string{"route add 20.0.0.0/8 via 10.1.0.2", "route append 20.0.0.0/8 via 10.2.0.2", "route append 20.0.0.0/8 via 10.1.0.3", "route del 20.0.0.0/8 via 10.1.0.2"},
			[]string{"20.0.0.1", wan2}},
		{"IPv4 prepend goes in front", []string{"route add 20.0.0.0/8 via 10.1.0.2", "route prepend 20.0.0.0/8 via 10.2.0.2"},
			[]string{"20.0.0.1", wan2}},
		{"IPv4 replace takes the first of several", []string{"route add 20.0.0.0/8 via 10.1.0.2", "route append 20.0.0.0/8 via 10.2.0.2", "route replace 20.0.0.0/8 via 10.1.0.3", "route del 20.0.0.0/8 via 10.1.0.3"},
			[]string{"20.0.0.1", wan2}},
		{"IPv6 append joins", []string{"route add fd20::/16 via fd01::2", "route append fd20::/16 via fd02::2"},
			[]string{"fd20::1", lan2 + "*128 " + wan2 + "*128"}},
		{"IPv6 append several, delete one", []string{"route add fd20::/16 via fd01::2", "route append fd20::/16 nexthop via fd02::2 nexthop via fd01::3", "route del fd20::/16 via fd01::2"},
			[]string{"fd20::1", lan3 + "*128 " + wan2 + "*128"}},
		{"IPv6 delete all but one", []string{"route add fd20::/16 nexthop via fd01::2 nexthop via fd01::3 nexthop via fd02::2", "route del fd20::/16 via fd01::2", "route del fd20::/16 via fd01::3"},
			[]string{"fd20::1", wan2}},
		{"IPv6 delete the whole", []string{"route add fd20::/16 nexthop via fd01::2 nexthop via fd02::2", "route del fd20::/16"},
			[]string{"fd20::1", "none"}},
		{"IPv6 replace of several by one", []string{"route add fd20::/16 nexthop via fd01::2 nexthop via fd02::2", "route replace fd20::/16 via fd01::3"},
			[]string{"fd20::1", lan3}},
		{"IPv6 replace of one by several", []string{"route add fd20::/16 via fd01::3", "route replace fd20::/16 nexthop via fd01::2 nexthop via fd02::2"},
			[]string{"fd20::1", lan2 + "*128 " + wan2 + "*128"}},
		{"other tables and link-local prefixes are not followed", []string{"route add 20.0.0.0/8 via 10.1.0.2 table 100", "route add fe80::/64 dev lan metric 5"},
			[]string{"20.0.0.1", "none", "fe80::1234", "none"}},
		{"an address brings its routes", []string{"addr add 10.9.0.1/24 dev lan", "addr add fd09::1/64 dev lan"},
			[]string{"10.9.0.1", "local", "10.9.0.255", "local", "10.9.0.7", "lan ?", "fd09::1", "local", "fd09::7", "lan ?"}},
		{"an address takes its routes away", []string{
			"addr add 10.9.0.1/24 dev lan", "route add 20.0.0.0/8 via 10.1.0.2 src 10.9.0.1", "route add 21.0.0.0/8 via 10.1.0.2",
			"addr del 10.9.0.1/24 dev lan", "addr add fd09::1/64 dev lan", "addr del fd09::1/64 dev lan"},
			[]string{"10.9.0.1", "none", "10.9.0.7", "none", "fd09::1", "none", "20.0.0.1", "none", "21.0.0.1", lan2}},
		{"an address takes routes over other links away", []string{
			"addr add 10.9.0.1/24 dev wan", "route add 20.0.0.0/8 via 10.1.0.2 src 10.9.0.1", "addr del 10.9.0.1/24 dev wan"},
			[]string{"20.0.0.1", "none"}},
		{"the last address takes all routes of the link away", []string{"route add 20.0.0.0/8 dev lan", "route add 20.1.0.0/16 via 10.2.0.2", "addr del 10.1.0.1/24 dev lan"},
			[]string{"20.0.0.1", "none", "20.1.0.1", wan2, "10.1.0.2", "none"}},
		{"IPv4 routes that only other metrics tell apart", []string{
			"route add 20.0.0.0/8 via 10.1.0.2 advmss 1000", "route append 20.0.0.0/8 via 10.1.0.2 advmss 900", "route del 20.0.0.0/8 via 10.1.0.2 advmss 900"},
			[]string{"20.0.0.1", lan2}},
		{"routes of the host's scope outlast their link", []string{"route add 20.0.0.0/8 dev lan scope host", "link set lan down", "link set lan up"},
			[]string{"20.0.0.1", "lan ?"}},
		{"IPv6 routes that a daemon makes of advertisements join", []string{"route add fd20::/16 via fd01::2 proto ra", "route append fd20::/16 via fd02::2 proto ra"},
			[]string{"fd20::1", lan2 + "*128 " + wan2 + "*128"}},
		{"IPv6 routes that a daemon makes of advertisements, one withdrawn", []string{
			"route add fd20::/16 via fd01::2 proto ra", "route append fd20::/16 via fd02::2 proto ra", "route append fd20::/16 via fd01::3 proto ra",
			"route del fd20::/16 via fd01::2 proto ra", "route del fd20::/16 via fd01::3 proto ra"},
			[]string{"fd20::1", wan2}},
		{"IPv6 routes that a daemon makes of advertisements, all withdrawn", []string{
			"route add fd20::/16 via fd01::2 proto ra", "route append fd20::/16 via fd02::2 proto ra", "route del fd20::/16 via fd01::2 proto ra", "route del fd20::/16 via fd02::2 proto ra"},
			[]string{"fd20::1", "none"}},
		{"the preferred one of IPv6 routes with equal metric", []string{
			"route add fd20::/16 via fd01::2 proto ra pref low", "route append fd20::/16 dev wan", "route append fd20::/16 dev lan pref high",
			"route add fd21::/16 dev lan pref low", "route append fd21::/16 dev wan pref high", "route del fd21::/16 dev wan", "route append fd21::/16 dev wan"},
			[]string{"fd20::1", "lan ?", "fd21::1", "wan ?"}},
		{"preferences do not outweigh metrics", []string{"route add fd20::/16 via fd01::2 metric 10 pref low", "route add fd20::/16 via fd02::2 metric 20 pref high"},
			[]string{"fd20::1", lan2}},
		{"a route that could not be made is none", []string{"route add 20.0.0.0/8 via 10.1.0.2 src 10.1.0.1 metric 5", "route change 20.0.0.0/8 via 10.2.0.2 metric 5"},
			[]string{"20.0.0.1", wan2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.ip(known...)
			w.start()
			w.ip(test.ip...)
			for i := 0; i < len(test.want); i += 2 {
				w.wantSoon(test.want[i], test.want[i+1]) // Linux checks IPv6 addresses first (DAD)
			}
			w.sameAsFresh()
		})
	}
}

func TestRoutesBeforeStartEqualRoutesAfter(t *testing.T) {
	w := newWorld(t)
	w.ip(known...)
	w.ip("nexthop add id 1 via 10.1.0.2 dev lan", "route add 20.0.0.0/8 nhid 1",
		"route add 21.0.0.0/8 nexthop via 10.1.0.2 nexthop via 10.2.0.2 weight 3",
		"route add fd20::/16 nexthop via fd01::2 nexthop via fd02::2", "route add blackhole 22.0.0.0/8")
	w.start()
	w.want("20.0.0.1", lan2, "21.0.0.1", lan2+"*64 "+wan2+"*192", "fd20::1", lan2+"*128 "+wan2+"*128", "22.0.0.1", "blackhole", "10.1.0.2", lan2)
}
