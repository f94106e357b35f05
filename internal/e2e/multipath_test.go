package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet/fragment"
)

// fan is a router with three links to the same far side:
//
//	client ──── lan0 router wan0 ──── far0      10.21.0.1 and .2, fd21::1 and ::2
//	                        wan1 ──── far1 far  10.22.0.1 and .2, fd22::1 and ::2
//	                        wan2 ──── far2      no IPv4,          fd23::1 and ::2
type fan struct {
	t                   *testing.T
	client, router, far *lab.Namespace
	fd                  int // a packet socket of the client
	mac                 []byte
	mu                  sync.Mutex
	came                [3][][]byte // IP frames to the prefixes behind the far side, by link
}

func newFan(t *testing.T) *fan {
	t.Helper()
	f := &fan{t: t}
	top := newTopology(t, lab.VethOptions{})
	f.client, f.router, f.far = top.Client, top.Router, top.Server
	must(t, f.router, "ip", "link", "del", lab.WAN)
	args := []string{"--port", lab.LAN}
	for i := range 3 {
		wan, far := fmt.Sprint("wan", i), fmt.Sprint("far", i)
		if err := lab.Veth(lab.End{Namespace: f.router, Name: wan}, lab.End{Namespace: f.far, Name: far}, lab.VethOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, format := range []string{"fd2%d::%d/64", "10.2%d.0.%d/24"}[:2-i/2] {
			must(t, f.router, "ip", "addr", "add", fmt.Sprintf(format, i+1, 1), "dev", wan)
			must(t, f.far, "ip", "addr", "add", fmt.Sprintf(format, i+1, 2), "dev", far)
		}
		// Without a carrier a link would lose its IPv6 routes, and the test its subject.
		if err := f.router.Sysctl("net.ipv6.conf."+wan+".keep_addr_on_down", "1"); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--port", wan)
		f.watch(i, far)
	}
	mac, err := f.router.MAC(lab.LAN)
	if err != nil {
		t.Fatal(err)
	}
	f.mac, f.fd = mac, packetSocket(t, f.client, lab.ClientLink)
	startRouter(t, f.router, args...)
	return f
}

// watch notes what arrives at a link of the far side.
func (f *fan) watch(link int, name string) {
	listen(f.t, f.far, name, func(frame []byte, _ bool) {
		if len(frame) < 14+40 {
			return
		}
		if bytes.HasPrefix(frame[14+16:], []byte{10, 50}) || bytes.HasPrefix(frame[14+24:], []byte{0xfd, 0x50}) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.came[link] = append(f.came[link], bytes.Clone(frame))
		}
	})
}

// send sends frames from the client, not too fast, and returns by link what came of them.
func (f *fan) send(frames [][]byte) (came [3][][]byte) {
	f.t.Helper()
	f.mu.Lock()
	f.came = [3][][]byte{}
	f.mu.Unlock()
	for i, frame := range frames {
		copy(frame, f.mac)
		if err := unix.Send(f.fd, frame, 0); err != nil {
			f.t.Fatal(err)
		}
		if i%20 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	for end := time.Now().Add(2 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		f.mu.Lock()
		came = f.came
		f.mu.Unlock()
		if len(came[0])+len(came[1])+len(came[2]) >= len(frames) || time.Now().After(end) {
			return came
		}
	}
}

// Flows, of both families: the even ones of IPv4. They differ in ports, and some in addresses.
const fanFlows = 600

func flowFrame(flow int, payload []byte) []byte {
	host, port := 1+flow/100, uint16(1000+flow)
	if flow%2 == 0 {
		return testutil.UDP4(lab.Client4.Addr().String(), fmt.Sprint("10.50.0.", host), port, loadPort, payload...)
	}
	return testutil.UDP6(lab.Client6.Addr().String(), fmt.Sprint("fd50::", host), port, loadPort, payload...)
}

// links sends two packets of every flow and returns the link that each takes. All
// must arrive, and those of a flow by the same link.
func (f *fan) links(when string) (link [fanFlows]int) {
	f.t.Helper()
	var frames [][]byte
	for n := range 2 * fanFlows {
		frames = append(frames, flowFrame(n%fanFlows, binary.BigEndian.AppendUint32(make([]byte, 16), uint32(n))))
	}
	var packets [fanFlows]int
	for l, came := range f.send(frames) {
		for _, frame := range came {
			flow := int(binary.BigEndian.Uint32(frame[len(frame)-4:])) % fanFlows
			if packets[flow] > 0 && link[flow] != l {
				f.t.Errorf("%s: flow %d comes by links %d and %d", when, flow, link[flow], l)
			}
			link[flow] = l
			packets[flow]++
		}
	}
	for flow, n := range packets {
		if n != 2 {
			f.t.Fatalf("%s: %d packets of flow %d arrived, of 2", when, n, flow)
		}
	}
	return link
}

// shares checks how many of the flows of each family take each link: within five standard
// deviations, or once in a million.
func (f *fan) shares(when string, link [fanFlows]int, want [3]float64) {
	f.t.Helper()
	var n [2][3]int
	for flow, l := range link {
		n[flow%2][l]++
	}
	for family, n := range n {
		for l, share := range want {
			mean, variance := fanFlows/2*share, fanFlows/2*share*(1-share)
			if d := float64(n[l]) - mean; d*d > 25*variance {
				f.t.Errorf("%s: %d of %d flows of %s by link %d, want about %.0f", when, n[l], fanFlows/2, families[family].name, l, mean)
			}
		}
	}
}

// moved fails the test unless exactly the flows that took a link moved; -1 for none.
func (f *fan) moved(when string, before, after [fanFlows]int, from int) {
	f.t.Helper()
	for flow := range before {
		if (before[flow] != after[flow]) != (before[flow] == from) {
			f.t.Errorf("%s: flow %d took link %d and takes %d", when, flow, before[flow], after[flow])
			return
		}
	}
}

func (f *fan) ip(lines ...string) {
	f.t.Helper()
	for _, l := range lines {
		must(f.t, f.router, "sh", "-c", "ip "+l)
	}
	time.Sleep(effect)
}

// Flows are spread over the paths of a route by weight, keep to them, and move only when
// theirs is lost: by a route with several next hops, and by groups of next-hop objects. One
// next hop of IPv4 is of IPv6 (RFC 8950).
func TestMultipathKeepsFlowsOnTheirPaths(t *testing.T) {
	f := newFan(t)
	f.ip("route add 10.50.0.0/16 nexthop via 10.21.0.2 weight 2 nexthop via 10.22.0.2 nexthop via inet6 fd23::2 dev wan2",
		"route add fd50::/64 nexthop via fd21::2 weight 2 nexthop via fd22::2 nexthop via fd23::2")
	for _, a := range []string{"10.21.0.1", "10.22.0.1", "fd21::1", "fd22::1", "fd23::1"} {
		must(t, f.far, "ping", "-c1", "-W2", a)
	}
	f.send([][]byte{flowFrame(0, nil)}) // the router has its neighbours from the pings, or soon
	time.Sleep(effect)

	start := f.links("at the start")
	f.shares("at the start", start, [3]float64{0.5, 0.25, 0.25})

	must(t, f.far, "ip", "link", "set", "far1", "down")
	time.Sleep(effect)
	down := f.links("without link 1")
	f.moved("without link 1", start, down, 1)
	f.shares("without link 1", down, [3]float64{2. / 3, 0, 1. / 3})

	must(t, f.far, "ip", "link", "set", "far1", "up")
	must(t, f.far, "ip", "-6", "addr", "replace", "fd22::2/64", "dev", "far1", "nodad")
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

// All fragments of a packet take one path, whole packets of the same flow maybe another.
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
