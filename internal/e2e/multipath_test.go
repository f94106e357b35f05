package e2e

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet/fragment"
)

// Flows spread over the paths of a route by weight and move only when their path is lost, with
// multipath routes and next-hop groups. One next hop of IPv4 is an IPv6 address (RFC 8950).
func TestMultipathKeepsFlowsOnTheirPaths(t *testing.T) {
	f := newFan(t)
	f.ip("route add 10.50.0.0/16 nexthop via 10.21.0.2 weight 2 nexthop via 10.22.0.2 nexthop via inet6 fd23::2 dev wan2",
		"route add fd50::/64 nexthop via fd21::2 weight 2 nexthop via fd22::2 nexthop via fd23::2")
	for _, a := range []string{"10.21.0.1", "10.22.0.1", "fd21::1", "fd22::1", "fd23::1"} {
		must(t, f.far, "ping", "-c1", "-W2", a)
	}
	f.send([][]byte{flowFrame(0, nil)}) // resolves neighbors that the pings did not
	time.Sleep(effect)

	start := f.links("at the start")
	f.shares("at the start", start, [3]float64{0.5, 0.25, 0.25})

	ip(t, f.far, "link set far1 down")
	time.Sleep(effect)
	down := f.links("without link 1")
	f.moved("without link 1", start, down, 1)
	f.shares("without link 1", down, [3]float64{2. / 3, 0, 1. / 3})

	ip(t, f.far, "link set far1 up", "-6 addr replace fd22::2/64 dev far1 nodad")
	time.Sleep(3 * effect)
	f.moved("with link 1 again", start, f.links("with link 1 again"), -1)

	f.ip("nexthop add id 1 via 10.21.0.2 dev wan0", "nexthop add id 2 via 10.22.0.2 dev wan1", "nexthop add id 3 via fd23::2 dev wan2",
		"nexthop add id 10 group 1,2/2/3 type resilient buckets 64", "route replace 10.50.0.0/16 nhid 10",
		"nexthop add id 61 via fd21::2 dev wan0", "nexthop add id 62 via fd22::2 dev wan1", "nexthop add id 63 via fd23::2 dev wan2",
		"nexthop add id 60 group 61,2/62/63", "route replace fd50::/64 nhid 60")
	f.moved("by groups", start, f.links("by groups"), -1)
	f.ip("nexthop del id 1", "nexthop del id 61")
	rest := f.links("by groups without link 0")
	f.moved("by groups without link 0", start, rest, 0)
	f.shares("by groups without link 0", rest, [3]float64{0, 0.5, 0.5})
}

// All fragments of a packet take one path; other packets of the flow may take another.
func TestMultipathKeepsFragmentsTogether(t *testing.T) {
	f := newFan(t)
	f.ip("route add 10.50.0.0/16 nexthop via 10.21.0.2 nexthop via 10.22.0.2 nexthop via inet6 fd23::2 dev wan2",
		"route add fd50::/64 nexthop via fd21::2 nexthop via fd22::2 nexthop via fd23::2")
	for _, a := range []string{"10.21.0.1", "10.22.0.1", "fd21::1", "fd22::1", "fd23::1"} {
		must(t, f.far, "ping", "-c1", "-W2", a)
	}
	time.Sleep(effect)
	var frames [][]byte
	const packets = 200
	for id := range packets {
		host := fmt.Sprintf("%x", 1+id)
		whole := testutil.UDP6(lab.Client6.Addr().String(), "fd50::"+host, uint16(1000+id), 53, make([]byte, 2500)...)
		if id%2 == 0 {
			a := netip.AddrFrom4([4]byte{10, 50, 0, byte(1 + id)})
			whole = testutil.UDP4(lab.Client4.Addr().String(), a.String(), uint16(1000+id), 53, make([]byte, 1400)...)
			binary.BigEndian.PutUint16(whole[14+4:], uint16(id))
			binary.BigEndian.PutUint16(whole[14+10:], 0)
			binary.BigEndian.PutUint16(whole[14+10:], ^testutil.Sum(whole[14:34]))
		}
		cut := func() (fragment.Split, error) { return fragment.IPv6(whole[14:], 1280, uint32(id)) }
		if id%2 == 0 {
			cut = func() (fragment.Split, error) { return fragment.IPv4(whole[14:], 576) }
		}
		s, err := cut()
		if err != nil || s.Count() != 3 {
			t.Fatalf("%d fragments, %v", s.Count(), err)
		}
		for i := range s.Count() {
			frame := append([]byte(nil), whole[:14]...)
			frame = append(frame, make([]byte, 1280)...)
			frames = append(frames, frame[:14+s.Put(frame[14:], i)])
		}
	}
	var by [packets][3]int
	for l, came := range f.send(frames) {
		for _, frame := range came {
			id := binary.BigEndian.Uint16(frame[14+4:])
			if frame[14]>>4 == 6 {
				id = binary.BigEndian.Uint16(frame[14+40+6:])
			}
			by[id][l]++
		}
	}
	used := [3]int{}
	for id, n := range by {
		for l := range n {
			if n[l] == 3 {
				used[l]++
			} else if n[l] != 0 {
				t.Errorf("packet %d: fragments by link %v", id, n)
				break
			}
		}
	}
	if used[0]+used[1]+used[2] != packets || min(used[0], used[1], used[2]) < packets/6 {
		t.Errorf("of %d packets, %v came whole by each link", packets, used)
	}
}
