package dataplane_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/lane"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/packet/fragment"
)

// esp is a gateway with the default lanes and the addresses 10.2.0.1 and fd02::1, hosts behind port 1, and the peer with its
// hosts behind port 0.
type esp struct {
	*rig
	gateway *gateway.Gateway
	shape   shape
	peer    map[ipsec.Direction]*ipsec.SA // the peer's ends
	ours    map[ipsec.Direction]*ipsec.SA
}

// shape is a form of ESP.
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
			Suite: "aes128gcm16", Key: bytes.Repeat([]byte{byte(d) + 1}, 20), DF: ipsec.ClearDF, ReplayWindow: 64, Tunnel: e.gateway.Tunnel("b"),
		}
		if s.udp {
			c.Encap = &ipsec.Encap{SrcPort: 4500, DstPort: 4500}
		}
		var err error
		e.ours[d], err = ipsec.NewSA(c, 1)
		require.NoError(t, err)
		require.NoError(t, e.gateway.Add(e.ours[d]))
		c.Direction = ipsec.In + ipsec.Out - d
		e.peer[c.Direction], err = ipsec.NewSA(c, 1)
		require.NoError(t, err)
		src, dst := espFar[s.inner], espNear[s.inner]
		if d == ipsec.Out {
			src, dst = dst, src
		}
		host := func(a string) netip.Prefix {
			return netip.PrefixFrom(netip.MustParseAddr(a), netip.MustParseAddr(a).BitLen())
		}
		rules = append(rules, gateway.Rule{Direction: d, Policy: policy.Policy{Src: host(src), Dst: host(dst), Action: policy.Protect, Target: c.Tunnel}})
	}
	require.NoError(t, e.gateway.SetRules(rules))
	e.engine.(*cpu.Engine).Secure(e.gateway, 0)
	lanes, err := lane.Compile(lane.Default(), e.gateway)
	require.NoError(t, err)
	e.config.Lanes = lanes
	e.routeTo(e.hop(fib.KindLocal), "10.2.0.1/32", "fd02::1/128")
	e.addresses = dataplane.Addresses{IPv4: netip.MustParseAddr("10.0.0.254"), IPv6: netip.MustParseAddr("fd00::fe")}
	return e
}

// datagram returns a UDP packet of a size, IP header included, to the far host or from it.
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

// seal encrypts a packet as the peer does.
func (e *esp) seal(p []byte) []byte {
	e.t.Helper()
	buf := make([]byte, 70_000)
	at, n, err := e.peer[ipsec.Out].Encapsulate(0, buf, 200, copy(buf[200:], p))
	if err != ipsec.OK {
		e.t.Fatal(err)
	}
	return buf[at : at+n]
}

// cut returns the fragments of a packet as frames.
func cut(t *testing.T, p []byte, id uint32) (frames [][]byte) {
	t.Helper()
	split, err := fragment.IPv4(p, 1500)
	if p[0]>>4 == 6 {
		split, err = fragment.IPv6(p, 1500, id)
	}
	require.NoError(t, err)
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

// whole reassembles the packets that have left by a port.
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

// alike reports whether two packets are equal except for one hop and the IPv4 checksum.
func alike(got, want []byte) bool {
	want = bytes.Clone(want)
	if want[0]>>4 == 6 {
		want[7]--
		return bytes.Equal(got, want)
	}
	(*packet.IPv4)(want).DecrementTTL()
	return bytes.Equal(got, want)
}

// sameSet checks that packets have arrived, in any order.
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

// pass runs the router until it has received frames from a port and none is under way.
func (e *esp) pass(port int, frames [][]byte) *dataplane.Stats {
	e.t.Helper()
	e.queues[port].Play(frames, len(frames))
	return e.run("all frames", func(s *dataplane.Stats) bool { return e.settled(s, len(frames)) })
}

// settled reports whether n frames were received and none is under way.
func (e *esp) settled(s *dataplane.Stats, n int) bool {
	var rx, tx, dropped uint64
	for i := range s.Ports {
		rx, tx, dropped = rx+s.Ports[i].RxPackets, tx+s.Ports[i].TxPackets, dropped+s.Ports[i].Dropped()
	}
	return rx == uint64(n) && rx+uint64(s.Originated) == tx+dropped+uint64(s.Merged+s.Delivered)
}

// drops returns the drops by reason.
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
