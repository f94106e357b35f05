package esp_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
)

// routedWorld is a gateway with XFRM interfaces and policy-based tunnels, and what a slow model knows of it.
type routedWorld struct {
	*world
	rnd        *rand.Rand
	gateway    *gateway.Gateway
	rules      []gateway.Rule
	interfaces []gateway.Interface
	routes     []modelRoute // longest prefix first
	far        []*ipsec.SA  // the peers' senders, by number of the SA
	ifIDs      []uint32     // by number of the SA
}

// modelRoute is a route over a port (if_id 0) or an XFRM interface.
type modelRoute struct {
	netip.Prefix
	ifID uint32
}

const maxIfID = 3 // random values of if_id; 0 for none

// newRoutedWorld returns 8 tunnels with if_id k mod 4, of which number k sends by SPI 0x1000+k and receives by 0x2000+k.
func newRoutedWorld(t testing.TB, seed uint64) *routedWorld {
	x := &routedWorld{world: newWorld(t), rnd: rand.New(rand.NewPCG(seed, 9)), gateway: &gateway.Gateway{}}
	for k := range 8 {
		x.ifIDs = append(x.ifIDs, uint32(k%(maxIfID+1)))
		for _, d := range []ipsec.Direction{ipsec.Out, ipsec.In} {
			c := config(d, false)
			c.SPI, c.IfID, c.Tunnel = uint32(0x1000+0x1000*int(d)+k), x.ifIDs[k], x.gateway.Tunnel(fmt.Sprint(k))
			s, err := ipsec.NewSA(c, 2)
			require.NoError(t, err)
			require.NoError(t, x.gateway.Add(s))
			if d == ipsec.In {
				c.Direction = ipsec.Out
				far, err := ipsec.NewSA(c, 1)
				require.NoError(t, err)
				x.far = append(x.far, far)
			}
		}
	}
	x.Engine.Secure(x.gateway, 0)
	return x
}

// over routes a prefix over XFRM interfaces, or by port 1 without any.
func (x *routedWorld) over(prefix string, ifIDs ...uint32) fib.NextHopID {
	id := x.Net.IPv4.Lookup(0x0a010001)
	if len(ifIDs) > 0 {
		var paths []fib.Path
		for _, n := range ifIDs {
			paths = append(paths, fib.Path{Adjacency: n, Weight: 1})
		}
		var err error
		if id, err = x.Net.NewNextHop(fib.KindNoPort, paths...); err != nil {
			panic(err)
		}
	}
	x.Net.Route(id, prefix)
	return id
}

// rule adds a policy.
func (x *routedWorld) rule(d ipsec.Direction, ifID uint32, src, dst netip.Prefix, a policy.Action, tunnel uint32) {
	r := gateway.Rule{Direction: d, IfID: ifID, Policy: policy.Policy{Src: src, Dst: dst, Action: a}}
	if a == policy.Protect {
		r.Target = tunnel
	}
	x.rules = append(x.rules, r)
}

var addresses = []string{"10.30.0.0/16", "10.30.1.0/24", "10.31.0.0/16", "10.31.7.0/24", "10.32.0.0/14", "0.0.0.0/0"}

// change draws new policies, routes and interfaces.
func (x *routedWorld) change(t testing.TB) {
	x.rules, x.interfaces, x.routes = nil, nil, nil
	any := func() netip.Prefix { return prefix(addresses[x.rnd.IntN(len(addresses))]) }
	for range 16 {
		a := policy.Protect
		if x.rnd.IntN(4) == 0 {
			a = policy.Action(x.rnd.IntN(3))
		}
		x.rule(ipsec.Direction(x.rnd.IntN(2)), uint32(x.rnd.IntN(maxIfID+1)), any(), any(), a, x.gateway.Tunnel(fmt.Sprint(x.rnd.IntN(8))))
	}
	require.NoError(t, x.gateway.SetRules(x.rules))
	for id := range uint32(maxIfID) {
		if x.rnd.IntN(4) > 0 {
			x.interfaces = append(x.interfaces, gateway.Interface{IfID: id + 1, Up: x.rnd.IntN(4) > 0})
		}
	}
	x.gateway.SetInterfaces(x.interfaces)
	for _, p := range addresses[:5] {
		id := uint32(x.rnd.IntN(maxIfID + 1))
		if len(x.interfaces) == 0 {
			id = 0
		}
		x.routes = append(x.routes, modelRoute{prefix(p), id})
		if id == 0 {
			x.over(p)
		} else {
			x.over(p, id)
		}
	}
	slices.SortFunc(x.routes, func(a, b modelRoute) int { return b.Bits() - a.Bits() })
}

func (x *routedWorld) route(a netip.Addr) (ifID uint32, ok bool) {
	for _, r := range x.routes {
		if r.Contains(a) {
			return r.ifID, true
		}
	}
	return 0, false
}

// first returns the first policy that matches.
func (x *routedWorld) first(d ipsec.Direction, ifID uint32, src, dst netip.Addr) (gateway.Rule, bool) {
	for _, r := range x.rules {
		if r.Direction == d && r.IfID == ifID && r.Src.Contains(src) && r.Dst.Contains(dst) {
			return r, true
		}
	}
	return gateway.Rule{}, false
}

// model returns the verdict on a packet that SA by decrypted, or on plaintext with by -1, and the SPI by which it leaves.
func (x *routedWorld) model(src, dst netip.Addr, by int) (v batch.Verdict, spi uint32) {
	receiving := uint32(0)
	if by >= 0 {
		for _, i := range x.interfaces {
			if i.IfID != x.ifIDs[by] || !i.Up {
				continue
			}
			receiving = i.IfID
		}
	}
	r, ok := x.first(ipsec.In, receiving, src, dst)
	switch {
	case !ok && by >= 0:
		return batch.Drop(batch.XfrmInNoPols), 0
	case !ok:
	case r.Action == policy.Discard:
		return batch.Drop(batch.XfrmInPolBlock), 0
	case r.Action == policy.Bypass && by >= 0, r.Action == policy.Protect && (by < 0 || x.gateway.Tunnel(fmt.Sprint(by)) != r.Target):
		return batch.Drop(batch.XfrmInTmplMismatch), 0
	}
	leaving, routed := x.route(dst)
	if r, ok = x.first(ipsec.Out, 0, src, dst); leaving != 0 && (!ok || r.Action == policy.Bypass) {
		r, ok = x.first(ipsec.Out, leaving, src, dst)
	}
	switch {
	case ok && r.Action == policy.Discard:
		return batch.Drop(batch.XfrmOutPolBlock), 0
	case ok && r.Action == policy.Protect:
		for k, id := range x.ifIDs {
			if x.gateway.Tunnel(fmt.Sprint(k)) == r.Target && (r.IfID == 0 || id == leaving) {
				return batch.Forward(1), uint32(0x1000 + k)
			}
		}
		return batch.Drop(batch.XfrmOutNoPols), 0
	case leaving != 0:
		return batch.Drop(batch.XfrmOutNoPols), 0
	case !routed:
		return batch.Drop(batch.NoRoute), 0
	}
	return batch.Forward(1), 0
}

// sealed returns a packet as the peer of SA k sends it.
func (x *routedWorld) sealed(frame []byte, k int) []byte {
	buf := make([]byte, 256+len(frame)+64)
	copy(buf[256:], frame[packet.EthernetLen:])
	at, n, err := x.far[k].Encapsulate(0, buf, 256, len(frame)-packet.EthernetLen)
	if err != ipsec.OK {
		panic(err)
	}
	return slices.Concat(frame[:packet.EthernetLen], buf[at:at+n])
}

// Packets pass the policies of the interface that they are routed over or received on, and no others, whatever the
// policies, interfaces and routes are: as a model says that looks at one rule after another.
func TestXFRMInterfacesFollowTheModel(t *testing.T) {
	x, seen := newRoutedWorld(t, 1), map[string]int{}
	address := func() netip.Addr {
		return netip.AddrFrom4([4]byte{10, byte(29 + x.rnd.IntN(5)), []byte{1, 7, 9}[x.rnd.IntN(3)], byte(x.rnd.IntN(3))})
	}
	for round := range 300 {
		x.change(t)
		const n = 150
		var frames [][]byte
		var want []batch.Verdict
		var spis []uint32
		for range n {
			src, dst, by := address(), address(), x.rnd.IntN(12)-4
			v, spi := x.model(src, dst, max(by, -1))
			f := testutil.UDP4(src.String(), dst.String(), 7, 8, make([]byte, 40)...)
			if by >= 0 {
				f = x.sealed(f, by)
			}
			frames, want, spis = append(frames, f), append(want, v), append(spis, spi)
		}
		for i, r := range x.Submit(lan, frames...) {
			spi := uint32(0)
			if r.Verdict.Action() == batch.ActionForward {
				if p := x.Sent(r)[packet.EthernetLen:]; p[9] == 50 {
					spi = binary.BigEndian.Uint32(p[packet.IPv4Len:])
				}
			}
			if r.Verdict != want[i] || spi != spis[i] {
				t.Fatalf("round %d, packet %d: %v by SPI %#x, want %v by %#x\n%+v\n%+v\n%v", round, i, r.Verdict, spi, want[i], spis[i], x.rules, x.interfaces, x.routes)
			}
			seen[fmt.Sprint(r.Verdict, spi != 0)]++
		}
	}
	if len(seen) < 8 {
		t.Errorf("few kinds of results: %v", seen)
	}
}

var everything = prefix("0.0.0.0/0")

// routeBased adds policies for everything to the interfaces of the first tunnel with each if_id, which are up.
func (x *routedWorld) routeBased(t testing.TB) {
	for id := range uint32(maxIfID + 1) {
		if id != 0 {
			x.rule(ipsec.Out, id, everything, everything, policy.Protect, x.gateway.Tunnel(fmt.Sprint(id)))
			x.rule(ipsec.In, id, everything, everything, policy.Protect, x.gateway.Tunnel(fmt.Sprint(id)))
			x.interfaces = append(x.interfaces, gateway.Interface{IfID: id, Up: true})
		}
	}
	require.NoError(t, x.gateway.SetRules(x.rules))
	x.gateway.SetInterfaces(x.interfaces)
}

// leavesBy returns the SPI of a packet's ESP, 0 if the packet is no ESP.
func (x *routedWorld) leavesBy(r batch.Result) uint32 {
	if r.Verdict != batch.Forward(1) {
		return 0
	}
	if p := x.Sent(r)[packet.EthernetLen:]; p[9] == 50 {
		return binary.BigEndian.Uint32(p[packet.IPv4Len:])
	}
	return 0
}

// The flows of a multipath route over XFRM interfaces are spread over them, and a flow stays on its path.
func TestFlowsSpreadOverXFRMInterfaces(t *testing.T) {
	x := newRoutedWorld(t, 2)
	x.routeBased(t)
	id := x.over("10.30.0.0/16", 1, 2)
	flow := func(port int) []byte {
		return testutil.UDP4("192.0.2.1", "10.30.0.9", uint16(port), 53, make([]byte, 40)...)
	}
	const flows = 200
	by, n := [flows]uint32{}, map[uint32]int{}
	for i := range flows {
		by[i] = x.leavesBy(x.Submit(lan, flow(i))[0])
		n[by[i]]++
		if again := x.leavesBy(x.Submit(lan, to4("10.1.0.9"), flow(i))[1]); again != by[i] {
			t.Errorf("flow %d leaves by SPI %#x and %#x", i, by[i], again)
		}
	}
	if len(n) != 2 || n[0x1001] < flows/4 || n[0x1002] < flows/4 {
		t.Fatalf("flows by SPI: %v", n)
	}
	require.NoError(t, x.Net.SetNextHop(id, fib.KindNoPort, fib.Path{Adjacency: 1, Weight: 1, Dead: true}, fib.Path{Adjacency: 2, Weight: 1}))
	for i := range flows {
		if now := x.leavesBy(x.Submit(lan, flow(i))[0]); now != 0x1002 {
			t.Errorf("flow %d leaves by SPI %#x when the tunnel of %#x is the only one", i, now, 0x1002)
		}
	}
	require.NoError(t, x.Net.SetNextHop(id, fib.KindNoPort))
	if r := x.Submit(lan, flow(1))[0]; r.Verdict != batch.Drop(batch.NoPort) {
		t.Errorf("with both tunnels down: %v", r.Verdict)
	}
}

// The MTU of an XFRM interface limits packets whose ESP would fit.
func TestMTUOfXFRMInterface(t *testing.T) {
	x := newRoutedWorld(t, 3)
	x.routeBased(t)
	x.Net.SetNextHopMTU(x.over("10.30.0.0/16", 1), 1000)
	for size, want := range map[int]batch.Verdict{1000: batch.Forward(1), 1001: batch.Drop(batch.MTUExceeded)} {
		f := testutil.Edit(testutil.UDP4("192.0.2.1", "10.30.0.9", 1, 2, make([]byte, size-28)...), 6, 0x40)
		if r := x.Submit(lan, f)[0]; r.Verdict != want || want != batch.Forward(1) && r.MTU() != 1000 {
			t.Errorf("a packet of %d bytes: %v, MTU %d", size, r.Verdict, r.MTU())
		}
	}
	x.over("10.30.0.0/16", 2)
	f := testutil.Edit(testutil.UDP4("192.0.2.1", "10.30.0.9", 1, 2, make([]byte, 1472)...), 6, 0x40)
	if r := x.Submit(lan, f)[0]; r.Verdict != batch.Drop(batch.MTUExceeded) || r.MTU() < 1400 || r.MTU() >= 1500 {
		t.Errorf("a packet that fits the port but not the tunnel: %v, MTU %d", r.Verdict, r.MTU())
	}
}

// IPv6 packets are routed over XFRM interfaces, too, and transport mode has no place there.
func TestXFRMInterfaceCarriesIPv6(t *testing.T) {
	x := newRoutedWorld(t, 4)
	x.routeBased(t)
	x.rule(ipsec.Out, 2, prefix("::/0"), prefix("::/0"), policy.Protect, x.gateway.Tunnel("2"))
	require.NoError(t, x.gateway.SetRules(x.rules))
	x.over("fd30::/64", 2)
	x.over("fd31::/64", 1)
	r := x.Submit(lan, to6("fd30::9"), to6("fd31::9"))
	if by := x.leavesBy(r[0]); by != 0x1002 || r[1].Verdict != batch.Drop(batch.XfrmOutNoPols) {
		t.Errorf("%v by SPI %#x, and %v", r[0].Verdict, by, r[1].Verdict)
	}
	c := config(ipsec.Out, false)
	c.Mode, c.IfID = ipsec.Transport, 1
	if _, err := ipsec.NewSA(c, 1); err == nil {
		t.Error("an SA in transport mode has an if_id")
	}
}

// Packets out of one tunnel are routed into another, and the reverse.
func TestTunnelsOfBothKindsForwardToEachOther(t *testing.T) {
	x := newRoutedWorld(t, 5)
	x.rule(ipsec.Out, 0, everything, prefix("10.40.0.0/16"), policy.Protect, x.gateway.Tunnel("0"))
	x.rule(ipsec.In, 0, prefix("10.40.0.0/16"), everything, policy.Protect, x.gateway.Tunnel("0"))
	x.routeBased(t)
	x.over("10.30.0.0/16", 1)
	x.over("10.40.0.0/16")
	for _, c := range []struct {
		src, dst string
		by       int
		spi      uint32
	}{{"10.40.0.1", "10.30.0.1", 0, 0x1001}, {"10.30.0.1", "10.40.0.1", 1, 0x1000}, {"10.30.0.1", "10.30.0.2", 1, 0x1001}} {
		f := x.sealed(testutil.UDP4(c.src, c.dst, 1, 2, make([]byte, 40)...), c.by)
		if r := x.Submit(wan, f)[0]; x.leavesBy(r) != c.spi {
			t.Errorf("from %s to %s: %v by SPI %#x, want %#x", c.src, c.dst, r.Verdict, x.leavesBy(r), c.spi)
		}
	}
}

func TestXFRMInterfacesDoNotAllocate(t *testing.T) {
	x := newRoutedWorld(t, 6)
	x.routeBased(t)
	x.over("10.30.0.0/16", 1, 2)
	x.over("fd30::/64", 2)
	frames := [][]byte{to4("10.30.0.9"), to6("fd30::9"), to4("172.16.0.1"), bytes.Repeat([]byte{1}, 60)}
	if n := testing.AllocsPerRun(100, func() { x.Submit(lan, frames...) }); n != 0 {
		t.Errorf("Submit allocates %v times", n)
	}
}
