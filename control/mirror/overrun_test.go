package mirror

import (
	"fmt"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
)

// A resync deletes everything that Linux does not have and adds everything that it has.
func TestResynchronization(t *testing.T) {
	w := newWorld(t)
	w.ip(known...)
	w.start()
	w.ip("nexthop add id 1 via 10.1.0.2 dev lan", "route add 20.0.0.0/8 nhid 1", "route add 21.0.0.0/8 via 10.2.0.2",
		"route add 22.0.0.0/8 via 10.1.0.2", "route append 22.0.0.0/8 via 10.2.0.2")
	lan := w.m.ports[0].Ifindex
	path := rtnl.Path{Gateway: netip.MustParseAddr("10.1.0.66"), Index: lan, Weight: 1}
	w.m.do(func() {
		s := &w.m.state
		s.setLink(&rtnl.Link{Index: 4711, Name: "ghost"})
		s.setObject(&rtnl.NexthopObject{ID: 66, Path: path})
		s.setNeighbor(&rtnl.Neighbor{Family: unix.AF_INET, Index: lan, Addr: path.Gateway, State: unix.NUD_PERMANENT, Address: [6]byte{2}}, false)
		ghost := &rtnl.Route{Family: unix.AF_INET, Type: unix.RTN_UNICAST, Table: unix.RT_TABLE_MAIN, Dst: netip.MustParsePrefix("66.0.0.0/8"), Paths: []rtnl.Path{path}}
		s.addRoute(ghost, unix.NLM_F_CREATE)
		ghost.Dst, ghost.NexthopID = netip.MustParsePrefix("67.0.0.0/8"), 66
		s.addRoute(ghost, unix.NLM_F_CREATE)
		s.addRoute(&rtnl.Route{ // again, in front
			Family: unix.AF_INET, Type: unix.RTN_UNICAST, Table: unix.RT_TABLE_MAIN, Protocol: unix.RTPROT_BOOT, Dst: netip.MustParsePrefix("22.0.0.0/8"),
			Paths: []rtnl.Path{{Gateway: netip.MustParseAddr("10.2.0.2"), Index: w.m.ports[1].Ifindex, Weight: 1}},
		}, unix.NLM_F_CREATE)
		s.deleteObject(1)
		s.forgetNeighbor(neighborID{w.m.ports[1].Ifindex, netip.MustParseAddr("10.2.0.2")})
		s.writeChanges()
	})
	w.want("66.0.0.1", "lan 02:00:00:00:00:00", "67.0.0.1", "lan 02:00:00:00:00:00", "10.1.0.66", "lan 02:00:00:00:00:00", "20.0.0.1", "none", "21.0.0.1", "wan ?", "22.0.0.1", "wan ?")
	w.m.do(w.m.resynchronize)
	w.want("66.0.0.1", "none", "67.0.0.1", "none", "10.1.0.66", "lan ?", "20.0.0.1", lan2, "21.0.0.1", wan2, "22.0.0.1", lan2)
	w.sameAsFresh()
	w.m.do(func() {
		if w.m.links[4711] != nil || w.m.objects[66] != nil {
			t.Error("a link or an object that Linux does not have stays")
		}
	})
}

// Some kernels delete routes with their source address without an event.
func TestRoutesOfADeletedSourceAddress(t *testing.T) {
	w := newWorld(t).start()
	w.m.do(func() {
		s := &w.m.state
		src := netip.MustParseAddr("10.9.0.1")
		s.addRoute(&rtnl.Route{
			Family: unix.AF_INET, Type: unix.RTN_UNICAST, Table: unix.RT_TABLE_MAIN, Dst: netip.MustParsePrefix("66.0.0.0/8"), PrefSrc: src,
			Paths: []rtnl.Path{{Gateway: netip.MustParseAddr("10.1.0.66"), Index: w.m.ports[0].Ifindex, Weight: 1}},
		}, unix.NLM_F_CREATE)
		s.writeChanges()
		s.suspects.addAddr(w.m.ports[1].Ifindex, src)
	})
	w.m.settle()
	w.want("66.0.0.1", "none")
}

// With a receive buffer that overruns, the mirror detects lost events and converges to Linux's
// state, after additions, replacements and deletions, also without events.
func TestOverrun(t *testing.T) {
	w := newWorld(t)
	opts := defaults
	opts.receiveBuffer = 4096
	w.startWith(opts)
	w.ip(known...)
	burst := func(format string) (lines []string) {
		for i := range 20000 {
			lines = append(lines, fmt.Sprintf(format, i>>8, i&255))
		}
		return lines
	}
	w.ip(burst("route add 20.%d.%d.0/24 via 10.1.0.2")...)
	w.want("20.0.0.1", lan2, "20.77.255.1", lan2)
	w.sameAsFresh()
	w.ip(burst("route replace 20.%d.%d.0/24 via 10.2.0.2")...)
	w.want("20.0.0.1", wan2, "20.77.255.1", wan2)
	w.sameAsFresh()
	w.ip(append(burst("route del 20.%d.%d.0/24"), "neigh del 10.1.0.2 dev lan", "link set wan down", "addr del 10.1.0.1/24 dev lan")...)
	w.want("20.0.0.1", "none", "20.77.255.1", "none", "10.1.0.1", "none")
	w.sameAsFresh()
	if st := w.m.Status(); st.Resyncs == 0 {
		t.Errorf("the buffer did not overrun, this test tests nothing: %+v", st)
	} else {
		t.Logf("%d full comparisons", st.Resyncs)
	}
}
