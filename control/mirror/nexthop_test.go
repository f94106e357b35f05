package mirror

import (
	"testing"

	"github.com/warproute/warproute/internal/require"
)

func TestNexthopObjects(t *testing.T) {
	w := newWorld(t)
	w.ip(known...)
	w.start()
	for _, step := range []struct {
		name string
		ip   []string
		want []string // address, outcome
	}{
		{"routes by one object", []string{
			"nexthop add id 1 via 10.1.0.2 dev lan", "nexthop add id 2 via 10.2.0.2 dev wan", "nexthop add id 3 via 10.1.0.3 dev lan",
			"nexthop add id 6 via fd01::2 dev lan",
			"route add 20.0.0.0/8 nhid 1", "route add 20.1.0.0/16 nhid 1", "route add fd20::/16 nhid 6", "route add 26.0.0.0/8 nhid 6"},
			[]string{"20.0.0.1", lan2, "20.1.0.1", lan2, "fd20::1", lan2, "26.0.0.1", lan2}},
		{"an object replaced changes all its routes", []string{"nexthop replace id 1 via 10.2.0.2 dev wan"},
			[]string{"20.0.0.1", wan2, "20.1.0.1", wan2}},
		{"routes of one object with MTUs of their own", []string{"route add 20.2.0.0/16 nhid 1 mtu 1400", "route add 20.3.0.0/16 nhid 1 mtu 1300", "nexthop replace id 1 via 10.1.0.3 dev lan"},
			[]string{"20.1.0.1", lan3, "20.2.0.1", lan3 + " mtu 1400", "20.3.0.1", lan3 + " mtu 1300"}},
		{"one of them deleted", []string{"route del 20.3.0.0/16", "nexthop replace id 1 via 10.2.0.2 dev wan"},
			[]string{"20.1.0.1", wan2, "20.2.0.1", wan2 + " mtu 1400", "20.3.0.1", wan2}},
		{"a group by weight", []string{"nexthop add id 10 group 2/3,3", "route add 21.0.0.0/8 nhid 10"},
			[]string{"21.0.0.1", lan3 + "*192 " + wan2 + "*64"}},
		{"a group replaced", []string{"nexthop replace id 10 group 2/3"},
			[]string{"21.0.0.1", lan3 + "*128 " + wan2 + "*128"}},
		{"a member replaced", []string{"nexthop replace id 3 via 10.1.0.2 dev lan"},
			[]string{"21.0.0.1", lan2 + "*128 " + wan2 + "*128"}},
		{"a member deleted leaves the others", []string{"nexthop del id 3"},
			[]string{"21.0.0.1", wan2}},
		{"the last member takes the group and its routes along", []string{"nexthop del id 2"},
			[]string{"21.0.0.1", "none", "20.0.0.1", wan2}},
		{"an object of the same number is another one", []string{"nexthop del id 1", "nexthop add id 1 via 10.1.0.3 dev lan", "route add 20.1.0.0/16 nhid 1"},
			[]string{"20.0.0.1", "none", "20.1.0.1", lan3, "20.2.0.1", "none"}},
		{"a blackhole", []string{"nexthop add id 20 blackhole", "nexthop add id 21 blackhole", "route add 22.0.0.0/8 nhid 20", "route add 22.1.0.0/16 nhid 21"},
			[]string{"22.0.0.1", "blackhole", "22.1.0.1", "blackhole"}},
		{"a blackhole turned into a way", []string{"nexthop replace id 20 via 10.1.0.2 dev lan"},
			[]string{"22.0.0.1", lan2}},
		{"on the link", []string{"nexthop add id 30 dev lan", "route add 23.0.0.0/8 nhid 30", "neigh add 23.0.0.9 dev lan lladdr 02:00:00:00:00:09"},
			[]string{"23.0.0.1", "lan ?", "23.0.0.9", "lan 02:00:00:00:00:09"}},
		{"on the link, no longer", []string{"nexthop replace id 30 via 10.1.0.2 dev lan"},
			[]string{"23.0.0.1", lan2, "23.0.0.9", lan2}},
		{"a link down deletes objects and members", []string{
			"nexthop add id 2 via 10.2.0.2 dev wan", "nexthop add id 40 group 1/2", "route add 24.0.0.0/8 nhid 40", "route add 25.0.0.0/8 nhid 2",
			"link set wan down"},
			[]string{"24.0.0.1", lan3, "25.0.0.1", "none"}},
		{"all deleted", []string{"link set wan up", "nexthop flush"},
			[]string{"20.1.0.1", "none", "21.0.0.1", "none", "22.0.0.1", "none", "23.0.0.1", "none", "fd20::1", "none"}},
	} {
		t.Log(step.name)
		w.ip(step.ip...)
		w.want(step.want...)
		w.sameAsFresh()
	}
}

// With nexthop_compat_mode off, Linux sends no events for the routes of next-hop objects.
func TestNexthopObjectsWithoutCompatibility(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.router.Sysctl("net.ipv4.nexthop_compat_mode", "0"))
	w.ip(known...)
	w.start()
	w.ip("nexthop add id 1 via 10.1.0.2 dev lan", "nexthop add id 2 via 10.2.0.2 dev wan", "nexthop add id 6 via fd01::2 dev lan",
		"nexthop add id 10 group 1/2", "route add 20.0.0.0/8 nhid 10", "route add 21.0.0.0/8 nhid 1", "route add fd20::/16 nhid 6")
	w.want("20.0.0.1", lan2+"*128 "+wan2+"*128", "21.0.0.1", lan2, "fd20::1", lan2)
	w.ip("nexthop replace id 1 via 10.1.0.3 dev lan")
	w.want("20.0.0.1", lan3+"*128 "+wan2+"*128", "21.0.0.1", lan3)
	w.ip("nexthop del id 1", "nexthop del id 6")
	w.want("20.0.0.1", wan2, "21.0.0.1", "none", "fd20::1", "none")
	w.sameAsFresh()
}
