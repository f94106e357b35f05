package dataplane_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/packet/fragment"
)

// esp is a router that is a gateway: 10.2.0.1 and fd02::1 by themselves, hosts behind port 1, and
// the peer with its hosts behind port 0.
type esp struct {
	*rig
	gateway *gateway.Gateway
	shape   shape
	peer    map[ipsec.Direction]*ipsec.SA // the peer's ends
	ours    map[ipsec.Direction]*ipsec.SA
}

// shape is how packets are protected.
type shape struct {
	mode         ipsec.Mode
	inner, outer int // version of IP
	udp          bool
}

func (s shape) String() string {
	return fmt.Sprintf("%v of IPv%d in IPv%d, UDP %v", s.mode, s.inner, s.outer, s.udp)
}

var shapes = []shape{
	{ipsec.Tunnel, 4, 4, false}, {ipsec.Tunnel, 6, 4, false}, {ipsec.Tunnel, 4, 6, false}, {ipsec.Tunnel, 6, 6, false},
	{ipsec.Transport, 4, 4, false}, {ipsec.Transport, 6, 6, false},
	{ipsec.Tunnel, 4, 4, true}, {ipsec.Transport, 4, 4, true}, {ipsec.Transport, 6, 6, true},
}

// Addresses by version of IP.
var (
	espRouter = map[int]string{4: "10.2.0.1", 6: "fd02::1"}
	espPeer   = map[int]string{4: "10.0.0.9", 6: "fd00::9"}
	espFar    = map[int]string{4: "10.0.0.10", 6: "fd00::10"} // a host of the peer's, or the peer as one
	espNear   = map[int]string{4: "10.1.0.1", 6: "fd01::1"}
)

func newESP(t *testing.T, s shape) *esp {
	t.Helper()
	e := &esp{newRig(t, 256), &gateway.Gateway{}, s, map[ipsec.Direction]*ipsec.SA{}, map[ipsec.Direction]*ipsec.SA{}}
	router, peer := espRouter[s.outer], espPeer[s.outer]
	if s.mode == ipsec.Transport {
		router, peer = espNear[s.outer], espFar[s.outer]
	}
	var rules []gateway.Rule
	for d, ends := range map[ipsec.Direction][2]string{ipsec.In: {peer, router}, ipsec.Out: {router, peer}} {
		c := ipsec.Config{
			SPI: 0x1000 + uint32(d), Direction: d, Mode: s.mode, Src: netip.MustParseAddr(ends[0]), Dst: netip.MustParseAddr(ends[1]),
			Suite: "aes128gcm16", Key: bytes.Repeat([]byte{byte(d) + 1}, 20), DF: ipsec.ClearDF, ReplayWindow: 64, Bundle: e.gateway.Bundle("b"),
		}
		if s.udp {
			c.Encap = &ipsec.Encap{SrcPort: 4500, DstPort: 4500}
		}
		var err error
		if e.ours[d], err = ipsec.NewSA(c, 1); err != nil {
			t.Fatal(err)
		}
		if err := e.gateway.Add(e.ours[d]); err != nil {
			t.Fatal(err)
		}
		c.Direction = ipsec.In + ipsec.Out - d
		if e.peer[c.Direction], err = ipsec.NewSA(c, 1); err != nil {
			t.Fatal(err)
		}
		src, dst := espFar[s.inner], espNear[s.inner]
		if d == ipsec.Out {
			src, dst = dst, src
		}
		host := func(a string) netip.Prefix {
			return netip.PrefixFrom(netip.MustParseAddr(a), netip.MustParseAddr(a).BitLen())
		}
		rules = append(rules, gateway.Rule{Direction: d, Policy: policy.Policy{Src: host(src), Dst: host(dst), Action: policy.Protect, Target: c.Bundle}})
	}
	if err := e.gateway.SetRules(rules); err != nil {
		t.Fatal(err)
	}
	e.engine.(*cpu.Engine).Secure(e.gateway, 0)
	local, err := e.fib.NewNextHop(fib.KindLocal)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.fib.IPv4.Insert(netip.MustParsePrefix("10.2.0.1/32"), local); err != nil {
		t.Fatal(err)
	}
	if err := e.fib.IPv6.Insert(netip.MustParsePrefix("fd02::1/128"), local); err != nil {
		t.Fatal(err)
	}
	e.addresses = dataplane.Addresses{IPv4: netip.MustParseAddr("10.0.0.254"), IPv6: netip.MustParseAddr("fd00::fe")}
	return e
}

// datagram is a UDP packet of a size, IP header included, to the far host or from it.
func (e *esp) datagram(size int, out bool) []byte {
	src, dst := espFar[e.shape.inner], espNear[e.shape.inner]
	if out {
		src, dst = dst, src
	}
	header := 28
	if e.shape.inner == 6 {
		header = 48
	}
	payload := make([]byte, size-header)
	for i := range payload {
		payload[i] = byte(i ^ i>>8)
	}
	if e.shape.inner == 6 {
		return testutil.UDP6(src, dst, 7, 9, payload...)[packet.EthernetLen:]
	}
	return testutil.Edit(testutil.UDP4(src, dst, 7, 9, payload...), 4, byte(size>>8), byte(size))[packet.EthernetLen:]
}

// seal protects a packet as the peer does.
func (e *esp) seal(p []byte) []byte {
	e.t.Helper()
	buf := make([]byte, 70_000)
	at, n, err := e.peer[ipsec.Out].Encapsulate(0, buf, 200, copy(buf[200:], p))
	if err != ipsec.OK {
		e.t.Fatal(err)
	}
	return buf[at : at+n]
}

// cut makes frames of a packet's fragments.
func cut(t *testing.T, p []byte, id uint32) (frames [][]byte) {
	t.Helper()
	split, err := fragment.IPv4(p, 1500)
	if p[0]>>4 == 6 {
		split, err = fragment.IPv6(p, 1500, id)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range split.Count() {
		f := testutil.Frame(testutil.Ethernet(layers.EthernetTypeIPv4))[:packet.EthernetLen]
		f = append(f, make([]byte, 1500)...)
		n := split.Put(f[packet.EthernetLen:], i)
		if p[0]>>4 == 6 {
			(*packet.Ethernet)(f).SetType(packet.EtherTypeIPv6)
		}
		frames = append(frames, f[:packet.EthernetLen+n])
	}
	return frames
}

// whole reassembles what has left by a port.
func (e *esp) whole(port int) (packets [][]byte) {
	e.t.Helper()
	r := fragment.NewReassembler(fragment.DefaultLimits)
	for _, f := range e.out[port] {
		if len(f) > packet.EthernetLen+1500 {
			e.t.Errorf("a frame of %d bytes left", len(f))
		}
		p, err := r.Add(0, f[packet.EthernetLen:])
		if err != nil {
			e.t.Errorf("a fragment that left: %v", err)
		}
		if p != nil {
			packets = append(packets, bytes.Clone(p))
		}
	}
	return packets
}

// alike reports whether two packets are alike but for one hop and IPv4's checksum.
func alike(got, want []byte) bool {
	want = bytes.Clone(want)
	if want[0]>>4 == 6 {
		want[7]--
		return bytes.Equal(got, want)
	}
	(*packet.IPv4)(want).DecrementTTL()
	return bytes.Equal(got, want)
}

// sameSet checks that packets have arrived, in any order: those that a frame holds take longer.
func sameSet(t *testing.T, got, want [][]byte, s *dataplane.Stats) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d of %d packets arrived; drops %v", len(got), len(want), drops(s))
	}
	for _, w := range want {
		if !slices.ContainsFunc(got, func(g []byte) bool { return alike(g, w) }) {
			t.Errorf("a packet of %d bytes did not arrive as it was", len(w))
		}
	}
}

// Whatever a peer protects whole, and fragments then, arrives, up to the longest packets.
func TestDatagramsArriveByESP(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.String(), func(t *testing.T) {
			e := newESP(t, s)
			sizes := []int{1450, 1500, 1600, 1700, 1760, 1790, 2000, 9000, 65000, 65535 - 20 - 8 - 8 - 8 - 16 - 8}
			var frames [][]byte
			var want [][]byte
			if s.inner != s.outer { // an IPv6 header more
				sizes = sizes[:len(sizes)-1]
			}
			for i, size := range sizes {
				if s.inner == 6 && s.mode == ipsec.Tunnel && size > 1500 {
					continue // its source would be told, see TestDatagramsThatMayNotBeCut
				}
				want = append(want, e.datagram(size, false))
				frames = append(frames, cut(t, e.seal(want[len(want)-1]), uint32(i))...)
			}
			e.queues[0].Play(frames, len(frames))
			e.start()
			e.wait("all fragments", func(st *dataplane.Stats) bool { return e.settled(st, len(frames)) })
			st := e.stop()
			sameSet(t, e.whole(1), want, st)
		})
	}
}

// settled reports whether n frames were received and none is under way.
func (e *esp) settled(s *dataplane.Stats, n int) bool {
	var rx, tx, dropped uint64
	for i := range s.Ports {
		rx, tx, dropped = rx+s.Ports[i].RxPackets, tx+s.Ports[i].TxPackets, dropped+s.Ports[i].Dropped()
	}
	return rx == uint64(n) && rx+uint64(s.Made) == tx+dropped+uint64(s.Merged+s.Delivered)
}

// drops are those of port 0 by name.
func drops(s *dataplane.Stats) map[string]uint64 {
	m := map[string]uint64{}
	for _, p := range s.Ports {
		for r, n := range p.Drops {
			if n > 0 {
				m[batch.Reason(r).String()] += n
			}
		}
	}
	return m
}

// What a host fragments is protected as a whole in transport mode, and as it came in a tunnel.
func TestDatagramsLeaveByESP(t *testing.T) {
	for _, s := range shapes {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, fragment after %v", s, after), func(t *testing.T) {
				e := newESP(t, s)
				e.gateway.FragmentAfter = after
				var frames, want [][]byte
				for i, size := range []int{1400, 1501, 1700, 2000, 9000, 65000} {
					want = append(want, e.datagram(size, true))
					frames = append(frames, cut(t, want[i], uint32(i))...)
				}
				for i, f := range frames { // a tunnel of IPv6 has no room for full ones, and its sources learn that
					if s.mode == ipsec.Tunnel && s.inner == 6 && len(f) > 1440 {
						frames = frames[:i]
						want = want[:1]
						break
					}
				}
				e.queues[1].Play(frames, len(frames))
				e.start()
				e.wait("all fragments", func(st *dataplane.Stats) bool { return e.settled(st, len(frames)) })
				st := e.stop()
				r := fragment.NewReassembler(fragment.DefaultLimits)
				var got [][]byte
				for _, p := range e.whole(0) {
					buf := append(make([]byte, 0, len(p)), p...)
					at, n, err := e.peer[ipsec.In].Decapsulate(0, buf, 0, len(buf))
					if err != ipsec.OK {
						t.Fatal(err)
					}
					whole, problem := r.Add(0, buf[at:at+n])
					if problem != nil {
						t.Fatal(problem)
					}
					if whole != nil {
						got = append(got, bytes.Clone(whole))
					}
				}
				sameSet(t, got, want, st)
			})
		}
	}
}

// The source of what a tunnel carries learns the size that fits behind it, where nobody may
// fragment its packet.
func TestDatagramsThatMayNotBeCut(t *testing.T) {
	for _, s := range shapes[:2] {
		e := newESP(t, s)
		p := e.datagram(9000, false)
		if s.inner == 4 {
			p[6] = 0x40
			p = testutil.Edit(append(make([]byte, packet.EthernetLen), p...), 6, 0x40)[packet.EthernetLen:]
		}
		frames := cut(t, e.seal(p), 1)
		e.queues[0].Play(frames, len(frames))
		e.start()
		e.wait("the error", func(st *dataplane.Stats) bool { return st.Ports[0].TxPackets == 1 })
		st := e.stop()
		if st.Ports[0].Drops[batch.MTUExceeded] != 1 || st.Ports[1].TxPackets != 0 {
			t.Errorf("%v: drops %v, %d packets passed", s, drops(st), st.Ports[1].TxPackets)
		}
		buf := bytes.Clone(e.out[0][0][packet.EthernetLen:])
		at, n, err := e.peer[ipsec.In].Decapsulate(0, buf, 0, len(buf))
		if err != ipsec.OK {
			t.Fatalf("%v: the error is not protected: %v", s, err)
		}
		icmp, want := buf[at+20:at+n], []byte{3, 4}
		mtu := int(icmp[6])<<8 | int(icmp[7])
		if s.inner == 6 {
			icmp, want = buf[at+40:at+n], []byte{2, 0}
			mtu = int(icmp[6])<<8 | int(icmp[7])
		}
		if !bytes.Equal(icmp[:2], want) || mtu != 1500 {
			t.Errorf("%v: ICMP type %d code %d with an MTU of %d", s, icmp[0], icmp[1], mtu)
		}
	}
}

// What a tunnel carries to the gateway itself reaches Linux whole.
func TestLargeDatagramsReachTheHost(t *testing.T) {
	e, h := newESP(t, shapes[0]), &host{}
	rules := e.gateway.Rules()
	for i := range rules {
		if rules[i].Direction == ipsec.In {
			rules[i].Src, rules[i].Dst = netip.MustParsePrefix("10.3.0.9/32"), netip.MustParsePrefix("10.2.0.1/32")
		}
	}
	if err := e.gateway.SetRules(rules); err != nil {
		t.Fatal(err)
	}
	p := testutil.UDP4("10.3.0.9", "10.2.0.1", 7, 9, make([]byte, 30_000)...)[packet.EthernetLen:]
	frames := cut(t, e.seal(p), 1)
	e.queues[0].Play(frames, len(frames))
	e.fib.IPv4.Delete(netip.MustParsePrefix("10.2.0.1/32")) // startWithHost has another
	e.startWithHost(h)
	e.wait("the delivery", func(st *dataplane.Stats) bool { return st.Delivered == 1 })
	st := e.stop()
	if len(h.delivered) != 1 || !bytes.Equal(h.delivered[0], p) || len(drops(st)) != 0 {
		t.Errorf("%d packets delivered, drops %v", len(h.delivered), drops(st))
	}
}

// A large datagram is checked as any packet is: one that is forged or replayed goes no further,
// and is counted once.
func TestLargeDatagramsAreChecked(t *testing.T) {
	for _, s := range []shape{shapes[0], shapes[4], shapes[5]} {
		e := newESP(t, s)
		sealed := e.seal(e.datagram(30_000, false))
		forged := bytes.Clone(e.seal(e.datagram(30_000, false)))
		forged[len(forged)-100] ^= 1
		again := cut(t, sealed, 2)
		frames := append(append(cut(t, sealed, 1), again...), cut(t, forged, 3)...)
		if s.outer == 4 { // another identification than the forged one's
			for _, f := range again {
				copy(f, testutil.Edit(f, 4, 0xff, 0xfe))
			}
		}
		e.queues[0].Play(frames, len(frames))
		e.start()
		e.wait("all fragments", func(st *dataplane.Stats) bool { return e.settled(st, len(frames)) })
		st := e.stop()
		want := map[string]uint64{"xfrm_in_state_seq_error": 1, "xfrm_in_state_proto_error": 1}
		if d := drops(st); fmt.Sprint(d) != fmt.Sprint(want) {
			t.Errorf("%v: drops %v, want %v", s, d, want)
		}
		if n := len(e.whole(1)); n != 1 {
			t.Errorf("%v: %d packets arrived, want 1", s, n)
		}
		if sa := e.ours[ipsec.In].Stats(); sa.Packets != 1 || sa.Replays != 1 || sa.Forgeries != 1 {
			t.Errorf("%v: %+v", s, sa)
		}
	}
}

// Strangers' fragments, of which none becomes whole, keep no protected datagram from
// becoming whole.
func TestFloodsOfFragmentsDoNotDisturb(t *testing.T) {
	for _, s := range []shape{shapes[0], shapes[2], shapes[4], shapes[5]} {
		e := newESP(t, s)
		honest := cut(t, e.seal(e.datagram(65_000, false)), 1)
		dst := espRouter[s.outer]
		if s.mode == ipsec.Transport {
			dst = espNear[s.outer]
		}
		var frames [][]byte
		n := 0
		for _, f := range honest {
			frames = append(frames, f)
			for range 20 {
				n++
				var flood []byte
				if s.outer == 4 {
					flood = testutil.Edit(testutil.Raw4(fmt.Sprintf("198.51.%d.%d", n>>8&0xff, n&0xff), dst, 50, make([]byte, 64)...), 4, byte(n>>8), byte(n), 0x20)
					if s.mode == ipsec.Transport {
						copy(flood[26:30], []byte{10, 0, 0, 10}) // as from the peer
						flood = testutil.Edit(flood, 8, 63)
					}
				} else {
					flood = testutil.Raw6(espFar[6], dst, 44, append([]byte{50, 0, 0, 1, 9, 9, byte(n >> 8), byte(n)}, make([]byte, 64)...)...)
				}
				frames = append(frames, flood)
			}
		}
		e.queues[0].Play(frames, len(frames))
		e.start()
		e.wait("all fragments", func(st *dataplane.Stats) bool { return e.settled(st, len(frames)) })
		st := e.stop()
		if got := e.whole(1); len(got) != 1 {
			t.Errorf("%v: the datagram did not arrive: drops %v", s, drops(st))
		}
		if d := st.Ports[0].Drops[batch.FragmentsMissing]; d != uint64(n) {
			t.Errorf("%v: %d fragments given up, want %d: %v", s, d, n, drops(st))
		}
	}
}

// Fragments that overlap, or lie about their packet's length, cost it.
func TestFragmentsThatLie(t *testing.T) {
	for _, s := range []shape{shapes[0], shapes[4]} {
		for name, lie := range map[string]func([][]byte) [][]byte{
			"overlap": func(f [][]byte) [][]byte {
				return append([][]byte{f[0], testutil.Edit(f[1], 7, f[1][21]-1)}, f[1:]...)
			},
			"longer": func(f [][]byte) [][]byte {
				return append([][]byte{testutil.Edit(f[len(f)-1], 6, 0x0f, 0xff)}, f...)
			},
			"shorter": func(f [][]byte) [][]byte {
				return append([][]byte{f[0], f[1], testutil.Edit(f[len(f)-1], 6, 0, 1)}, f[2:]...)
			},
		} {
			e := newESP(t, s)
			frames := lie(cut(t, e.seal(e.datagram(9000, false)), 1))
			e.queues[0].Play(frames, len(frames))
			e.start()
			e.wait("all fragments", func(st *dataplane.Stats) bool { return e.settled(st, len(frames)) })
			time.Sleep(5 * time.Millisecond)
			st := e.stop()
			if d := st.Ports[0].Drops; st.Ports[1].TxPackets != 0 || d[batch.FragmentOverlap] == 0 || d[batch.FragmentOverlap]+d[batch.FragmentsMissing] != uint64(len(frames)) {
				t.Errorf("%v, %s: %d packets left, drops %v", s, name, st.Ports[1].TxPackets, drops(st))
			}
		}
	}
}
