package afxdp

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

// inVLAN returns a frame with tags behind its MAC addresses: pairs of EtherType and TCI.
func inVLAN(frame []byte, tags ...uint16) []byte {
	b := slices.Clone(frame[:12])
	for _, half := range tags {
		b = binary.BigEndian.AppendUint16(b, half)
	}
	return append(b, frame[12:]...)
}

const (
	q  = unix.ETH_P_8021Q
	ad = unix.ETH_P_8021AD
)

// addVLANs adds VLAN 5 to the port; service VLAN 6 with MAC address otherMAC, and VLAN 7 in it.
func addVLANs(t *testing.T, s *Set) {
	t.Helper()
	require.NoError(t, s.SetVLAN(0, VLANKey{0, 5}, 100, portMAC))
	require.NoError(t, s.SetVLAN(0, VLANKey{0, 1<<12 | 6}, 101, otherMAC))
	require.NoError(t, s.SetVLAN(0, VLANKey{101, 7}, 102, portMAC))
}

// Frames of known VLANs, and those with a priority tag, are decided on as untagged frames are.
func TestSteerDecidesOnVLANsAsOnUntagged(t *testing.T) {
	s := openWith(t, own4, subnet4, own6)
	addVLANs(t, s)
	for _, c := range steerTests {
		if len(c.frame) >= 14 && (c.want == VLAN) {
			continue
		}
		action := uint32(xdpPass)
		if c.want == ToSocket {
			action = xdpRedirect
		}
		for _, tags := range [][]uint16{
			{q, 5}, {q, 0xf005}, {q, 0}, {q, 0xe000}, {q, 0, q, 5}, {q, 5, q, 0}, {ad, 6, q, 7}, {ad, 0xe006, q, 0xe007},
		} {
			expect(t, s.Ports[0], c.rule, inVLAN(c.frame, tags...), c.want, action)
		}
	}
}

// Frames of other VLANs go to Linux, and on a gateway only those that Linux does not forward.
func TestSteerPassesUnknownVLANs(t *testing.T) {
	s := openWith(t, own4)
	addVLANs(t, s)
	far, own := eth(portMAC, ipv4, ip4(far4, 0)), eth(portMAC, ipv4, ip4(own4, 0))
	unknown := [][]uint16{{q, 4}, {ad, 5}, {q, 6}, {q, 7}, {q, 5, q, 7}, {q, 5, ad, 6}, {ad, 6, q, 8}, {q, 6, q, 7}, {ad, 6, ad, 7}, {q, 0, q, 4}, {q, 0, q, 0, q, 5}, {ad, 6, q, 7, q, 5}}
	for _, tags := range unknown {
		expect(t, s.Ports[0], "unknown VLAN", inVLAN(far, tags...), VLAN, xdpPass)
	}
	for n := 14; n < 18; n++ {
		expect(t, s.Ports[0], "a tag that is cut", inVLAN(far, q, 5)[:n], VLAN, xdpPass)
	}
	expect(t, s.Ports[0], "to the MAC address of another VLAN", inVLAN(eth(otherMAC, ipv4, ip4(far4, 0)), q, 5), OtherMAC, xdpPass)
	expect(t, s.Ports[0], "to the VLAN's MAC address", inVLAN(eth(otherMAC, ipv4, ip4(far4, 0)), ad, 6), ToSocket, xdpRedirect)
	expect(t, s.Ports[0], "to the port's MAC address instead", inVLAN(far, ad, 6), OtherMAC, xdpPass)

	require.NoError(t, s.Guard())
	for _, tags := range unknown {
		want, action := VLAN, uint32(xdpPass)
		if len(tags) > 4 {
			want, action = TransitVLAN, xdpDrop
		}
		expect(t, s.Ports[0], "to this host", inVLAN(own, tags...), want, action)
		expect(t, s.Ports[0], "to others", inVLAN(far, tags...), TransitVLAN, xdpDrop)
	}
	expect(t, s.Ports[0], "a known VLAN of a gateway", inVLAN(far, q, 5), ToSocket, xdpRedirect)
	expect(t, s.Ports[0], "options in it", inVLAN(eth(portMAC, ipv4, ip4(far4, 1)), q, 5), TransitIPv4Options, xdpDrop)
	expect(t, s.Ports[0], "the host in it", inVLAN(own, q, 5), Local, xdpPass)
}

// Changes of VLANs apply at once, per port, and a paused port passes every frame to Linux.
func TestSteerFollowsVLANs(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	addVeth(t, "rb", "b", 1)
	s := open(t, Config{Ports: ports(Native, "ra", "rb"), Workers: []WorkerMemory{newWorker(t, 64)}, RingSize: 64})
	for _, p := range s.Ports {
		require.NoError(t, p.SetMAC(portMAC))
	}
	frame := inVLAN(eth(portMAC, ipv4, ip4(far4, 0)), q, 5)
	k := VLANKey{1, 5}
	expect(t, s.Ports[1], "before", frame, VLAN, xdpPass)
	priority := inVLAN(eth(portMAC, ipv4, ip4(far4, 0)), q, 0)
	expect(t, s.Ports[1], "a priority tag, which workers do not remove yet", priority, VLAN, xdpPass)
	require.NoError(t, s.SetVLAN(1, k, 9, portMAC))
	expect(t, s.Ports[1], "added", frame, ToSocket, xdpRedirect)
	expect(t, s.Ports[1], "a priority tag on the port with a VLAN", priority, ToSocket, xdpRedirect)
	expect(t, s.Ports[0], "a priority tag on the other port", priority, VLAN, xdpPass)
	expect(t, s.Ports[0], "added to the other port", frame, VLAN, xdpPass)
	require.NoError(t, s.SetVLAN(1, k, 9, otherMAC))
	expect(t, s.Ports[1], "with another MAC address", frame, OtherMAC, xdpPass)
	require.NoError(t, s.SetVLAN(1, k, 9, portMAC))
	require.NoError(t, s.Ports[1].Pause())
	expect(t, s.Ports[1], "paused", frame, VLAN, xdpPass)
	require.NoError(t, s.Ports[1].Resume())
	expect(t, s.Ports[1], "resumed", frame, ToSocket, xdpRedirect)
	require.NoError(t, s.DeleteVLAN(k))
	require.NoError(t, s.DeleteVLAN(k))
	expect(t, s.Ports[1], "deleted", frame, VLAN, xdpPass)
	for i := range MaxVLANs {
		require.NoError(t, s.SetVLAN(i%2, VLANKey{uint16(i % 2), uint16(i / 2)}, 1, portMAC))
	}
	if err := s.SetVLAN(0, VLANKey{0, 4000}, 1, portMAC); err == nil {
		t.Error("a full map takes another VLAN")
	}
}

// Frames to a further MAC address of a port or VLAN are decided on as those to its own.
func TestSteerTakesFurtherMACs(t *testing.T) {
	s := openWith(t, own4)
	addVLANs(t, s)
	vrrp := [6]byte{0, 0, 0x5e, 0, 1, 9}
	frames := map[uint16][]byte{0: eth(vrrp, ipv4, ip4(far4, 0)), 100: inVLAN(eth(vrrp, ipv4, ip4(far4, 0)), q, 5), 102: inVLAN(eth(vrrp, ipv4, ip4(far4, 0)), ad, 6, q, 7)}
	for port := range frames {
		for other, f := range frames {
			expect(t, s.Ports[0], "unknown", f, OtherMAC, xdpPass)
			require.NoError(t, s.AddMAC(port, vrrp))
			want, action := OtherMAC, uint32(xdpPass)
			if other == port {
				want, action = ToSocket, xdpRedirect
			}
			expect(t, s.Ports[0], "of one port", f, want, action)
			require.NoError(t, s.DeleteMAC(port, vrrp))
			require.NoError(t, s.DeleteMAC(port, vrrp))
		}
	}
	require.NoError(t, s.AddMAC(0, vrrp))
	expect(t, s.Ports[0], "to the host", eth(vrrp, ipv4, ip4(own4, 0)), Local, xdpPass)
	require.NoError(t, s.Guard())
	expect(t, s.Ports[0], "options on a gateway", eth(vrrp, ipv4, ip4(far4, 1)), TransitIPv4Options, xdpDrop)
	require.NoError(t, s.Ports[0].Pause())
	expect(t, s.Ports[0], "paused", eth(vrrp, ipv4, ip4(own4, 0)), OtherMAC, xdpPass)
}
