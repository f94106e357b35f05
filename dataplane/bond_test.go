package dataplane_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/lane"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet/filter"
)

// bondRig has bond 3 of ports 1 and 2, VLAN 7 on it as port 4, and networks on both as those of addVLAN. Its sources,
// 192.0.2.0/24 and 2001:db8::/64, are routed to the bond.
func bondRig(t *testing.T) *rig {
	r := newRigOf(t, 3, 64)
	r.fib.VLANs.SetPhysical(3)
	number, err := r.fib.VLANs.Take()
	require.NoError(t, err)
	r.fib.Bonds.Add(number)
	for _, port := range []uint16{1, 2} {
		r.fib.Bonds.SetMaster(port, number)
	}
	r.members(1, 2)
	r.fib.SetPort(number, fib.MAC(0x020000000000+uint64(number)), 1500)
	adjacency, err := r.fib.NewAdjacency(number)
	require.NoError(t, err)
	r.fib.SetAdjacency(adjacency, number, 0x0200000000aa)
	r.routeTo(r.hop(fib.KindForward, fib.Path{Adjacency: adjacency, Weight: 1}), "10.3.0.0/16", "fd03::/64", "192.0.2.0/24", "2001:db8::/64")
	if vlan := r.addVLAN(number, 0x8100, 7); number != 3 || vlan != 4 {
		t.Fatalf("bond %d, VLAN %d", number, vlan)
	}
	return r
}

// members sets which members of the bond transmit.
func (r *rig) members(ports ...uint16) {
	var paths []fib.Path
	for port := range uint16(3) {
		dead := true
		for _, p := range ports {
			dead = dead && p != port
		}
		if port > 0 {
			paths = append(paths, fib.Path{Adjacency: uint32(port), Weight: 1, Dead: dead})
		}
	}
	r.fib.Bonds.SetMembers(3, paths)
}

func (r *rig) addBond() {
	r.router.AddPort(3, 1)
	r.router.AddPort(4, 1)
}

// flowsTo returns packets of a number of flows, to a network N as 10.N.0.0/16 and fd0N::/64.
func flowsTo(network, flows int) (frames [][]byte) {
	for i := range flows {
		frames = append(frames, testutil.UDP4("198.51.100.1", fmt.Sprintf("10.%d.0.1", network), uint16(i+1), 2), testutil.UDP6("2001:db8:1::1", fmt.Sprintf("fd0%d::1", network), uint16(i+1), 2))
	}
	return frames
}

// egressOf returns the member by which each frame left, without copies.
func (r *rig) egressOf() map[string]int {
	r.t.Helper()
	all := map[string]int{}
	for _, member := range []int{1, 2} {
		for _, f := range r.out[member] {
			if other, twice := all[string(f)]; twice && other != member {
				r.t.Errorf("a flow leaves by both members: %x", f)
			}
			all[string(f)] = member
		}
	}
	return all
}

// A capture has packets without tags that are dropped behind the engine, whoever has added the tags: filters match them.
func TestCaptureOfDropsBehindTheEngine(t *testing.T) {
	for _, byWorkers := range []bool{false, true} {
		r := bondRig(t)
		if byWorkers {
			r.fib.VLANs.LeaveTags()
		}
		r.members() // none transmits
		r.queues[0].Play(flowsTo(4, 5), 10)
		var capture *dataplane.Capture
		r.configure(func() {
			r.addBond()
			udp, err := filter.Parse("udp")
			require.NoError(t, err)
			capture = r.router.StartCapture(dataplane.CaptureConfig{
				Points: [dataplane.NumPoints]bool{dataplane.Dropped: true}, Reasons: [batch.NumReasons]bool{batch.PortDown: true}, Filter: udp, Snap: 100, Room: 100,
			})
		})
		r.wait("the drops", func(s *dataplane.Stats) bool { return s.Ports[0].Drops[batch.PortDown] == 10 })
		r.stop()
		want := flowsTo(4, 5)
		n := capture.Read(func(rec *dataplane.Record) bool {
			if f := forwarded(want[0], 4); !bytes.Equal(rec.Data, f) || rec.Len != len(f) || rec.Inside {
				t.Errorf("tags by workers %v: %x, want %x", byWorkers, rec.Data, f)
			}
			want = want[1:]
			return true
		})
		if n != 10 {
			t.Errorf("tags by workers %v: %d of 10 drops are captured", byWorkers, n)
		}
	}
}

// Packets to a bond leave by its members, each flow by one, with tags if they are of a VLAN. Those of a member that
// fails leave by the other, and the others stay.
func TestBondSpreadsFlows(t *testing.T) {
	const flows = 200
	var before map[string]int
	for run, members := range [][]uint16{{1, 2}, {1}, {2}, {}, {1, 2}, {1, 2}, {2}} {
		r := bondRig(t)
		if run > 4 { // workers add tags, as on a gateway
			r.fib.VLANs.LeaveTags()
		}
		r.members(members...)
		in := append(flowsTo(3, flows), flowsTo(4, flows)...)
		r.queues[0].Play(in, 3*len(in))
		r.configure(r.addBond)
		r.wait("the packets", func(s *dataplane.Stats) bool {
			return s.Ports[1].TxPackets+s.Ports[2].TxPackets+s.Ports[0].Dropped() == uint64(3*len(in))
		})
		s := r.stop()
		out := r.egressOf()
		share := map[int]int{}
		for _, network := range []int{3, 4} {
			for _, f := range flowsTo(network, flows) {
				f = forwarded(f, uint16(network))
				if network == 4 {
					f = tagged(f, 0x8100, 7)
				}
				member, ok := out[string(f)]
				if ok != (len(members) > 0) {
					t.Fatalf("members %v: a frame leaves: %v: %x", members, ok, f)
				}
				share[member]++
				if before[string(f)] != member && len(members) == 1 && before[string(f)] == int(members[0]) {
					t.Errorf("members %v: a flow of member %d moves to %d", members, before[string(f)], member)
				}
			}
		}
		t.Logf("members %v: flows by member %v", members, share)
		switch len(members) {
		case 0:
			if s.Ports[0].Drops[batch.PortDown] != uint64(3*len(in)) {
				t.Errorf("drops without a member: %v", s.Ports[0].Drops)
			}
		case 1:
			if share[int(members[0])] != 4*flows {
				t.Errorf("members %v: %v flows by member", members, share)
			}
		default:
			if d := share[1] - share[2]; d < -flows || d > flows {
				t.Errorf("members %v: flows by member %v, want halves", members, share)
			}
			before = out
		}
		bond, vlan := &s.Logical[0], &s.Logical[1]
		tx := s.Ports[1].TxPackets + s.Ports[2].TxPackets
		if bond.TxPackets != tx || bond.TxBytes != s.Ports[1].TxBytes+s.Ports[2].TxBytes || vlan.TxPackets != tx/2 || vlan.TxBytes+4*vlan.TxPackets != bond.TxBytes-(vlan.TxBytes) {
			t.Errorf("members %v: sent %d packets, the bond %d (%d bytes), its VLAN %d (%d bytes)", members, tx, bond.TxPackets, bond.TxBytes, vlan.TxPackets, vlan.TxBytes)
		}
	}
}

// Each SA of ESP is a flow. Fragments are spread by their addresses.
func TestBondSpreadsSAs(t *testing.T) {
	const sas = 100
	r := bondRig(t)
	var in [][]byte
	for i := range sas {
		spi := []byte{0xc0, 0, 0, byte(i), 0, 0, 0, 1}
		v4 := testutil.Edit(testutil.Edit(testutil.UDP4("198.51.100.1", "10.3.0.1", 1, 2), 20, spi...), 9, 50)
		in = append(in, v4, testutil.Edit(testutil.Edit(testutil.UDP6("2001:db8:1::1", "fd03::1", 1, 2), 40, spi...), 6, 50), testutil.Edit(v4, 6, 0x20))
	}
	r.queues[0].Play(in, 2*len(in))
	r.configure(r.addBond)
	r.wait("the packets", func(s *dataplane.Stats) bool {
		return s.Ports[1].TxPackets+s.Ports[2].TxPackets+s.Ports[0].Dropped() == uint64(2*len(in))
	})
	r.stop()
	share := map[string][2]int{}
	for f, member := range r.egressOf() {
		kind := "IPv6"
		if f[14]>>4 == 4 {
			kind = map[bool]string{true: "fragments", false: "IPv4"}[f[20]&0x20 != 0]
		}
		n := share[kind]
		n[member-1]++
		share[kind] = n
	}
	for _, kind := range []string{"IPv4", "IPv6"} {
		if n := share[kind]; n[0]+n[1] != sas || n[0] < sas/4 || n[1] < sas/4 {
			t.Errorf("%s: SAs by member %v", kind, n)
		}
	}
	if n := share["fragments"]; n != [2]int{sas, 0} && n != [2]int{0, sas} {
		t.Errorf("fragments by member %v, want one member", n)
	}
}

// Frames that any member receives are those of the bond and its VLANs: for the reverse path, counters, captures, and
// the source of ICMP errors.
func TestBondReceives(t *testing.T) {
	two, err := lane.Compile([]lane.Lane{
		{Name: "a", Deadline: time.Millisecond, Match: []lane.Match{{Protocol: 17, DstPorts: lane.Range{First: 2, Last: 2}, Plain: true}}}, {Name: "b"},
	}, &gateway.Gateway{})
	require.NoError(t, err)
	for name, lanes := range map[string]*lane.Lanes{"one lane": nil, "two lanes": two} {
		t.Run(name, func(t *testing.T) { testBondReceives(t, lanes) })
	}
}

func testBondReceives(t *testing.T, lanes *lane.Lanes) {
	r := bondRig(t)
	r.config.Lanes = lanes
	r.fib.SetRPF(3, fib.RPF{IPv4: fib.RPFStrict, IPv6: fib.RPFStrict})
	r.fib.SetRPF(4, fib.RPF{IPv4: fib.RPFStrict})
	pass := [][]byte{testutil.UDP4("192.0.2.1", "10.0.0.1", 1, 2), testutil.UDP6("2001:db8::1", "fd00::1", 1, 2)}
	in := append(pass, testutil.UDP4("10.0.0.9", "10.0.0.1", 1, 2), // routed by port 0
		tagged(testutil.UDP4("10.4.0.9", "10.0.0.1", 1, 2), 0x8100, 7), tagged(testutil.UDP4("192.0.2.1", "10.0.0.1", 1, 2), 0x8100, 7), // routed by the bond
		tagged(testutil.UDP4("10.4.0.9", "10.0.0.1", 1, 2), 0x8100, 8), testutil.Edit(pass[0], 8, 1)) // unknown VLAN, expired
	for _, member := range []int{1, 2} {
		r.queues[member].Play(in, len(in))
	}
	var capture *dataplane.Capture
	r.configure(func() {
		r.addBond()
		r.router.SetAddresses(3, dataplane.Addresses{IPv4: netip.MustParseAddr("192.0.2.254")})
		cfg := dataplane.CaptureConfig{Points: [dataplane.NumPoints]bool{dataplane.Received: true}, Filter: &filter.Filter{}, Snap: 100, Room: 100}
		capture = r.router.StartCapture(cfg)
	})
	r.wait("the packets", func(s *dataplane.Stats) bool {
		return s.Ports[0].TxPackets == 6 && s.Ports[1].TxPackets+s.Ports[2].TxPackets == 2 && s.Logical[0].Dropped()+s.Logical[1].Dropped() == 8
	})
	s := r.stop()
	bond, vlan := &s.Logical[0], &s.Logical[1]
	if bond.Drops[batch.ReversePath] != 2 || vlan.Drops[batch.ReversePath] != 2 || bond.Drops[batch.VLANUnknown] != 2 || bond.Drops[batch.TTLExpired] != 2 {
		t.Errorf("drops of the bond %v, of its VLAN %v", bond.Drops, vlan.Drops)
	}
	if rx := s.Ports[1].RxPackets + s.Ports[2].RxPackets; rx != 14 || bond.RxPackets != rx || bond.RxBytes != s.Ports[1].RxBytes+s.Ports[2].RxBytes || vlan.RxPackets != 4 {
		t.Errorf("%d packets received, %d by the bond, %d by its VLAN", rx, bond.RxPackets, vlan.RxPackets)
	}
	for _, f := range append(r.out[1], r.out[2]...) {
		if !bytes.Equal(f[26:34], []byte{192, 0, 2, 254, 192, 0, 2, 1}) {
			t.Errorf("the ICMP error is %x", f)
		}
	}
	ports := map[uint16]int{}
	capture.Read(func(rec *dataplane.Record) bool { ports[rec.Port]++; return true })
	if ports[3] != 8 || ports[4] != 4 || len(ports) != 2 {
		t.Errorf("captured packets by port: %v", ports)
	}
}

// Packets that do not fit a member's transmit ring are not counted as sent, and a bond that is deleted sends none.
func TestBondCountsLosses(t *testing.T) {
	r := bondRig(t)
	r.members(1)
	r.config.Workers[0].Queues[1][0] = &stuck{r.queues[1], 100}
	in := append(flowsTo(3, 4), flowsTo(4, 4)...)
	const sent = 300
	r.queues[0].Play(in, sent)
	r.configure(r.addBond)
	r.wait("the packets", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets+s.Ports[0].Dropped() == sent })
	s := r.stop()
	bond, vlan := &s.Logical[0], &s.Logical[1]
	if s.Ports[0].Drops[batch.TxFull] != 200 || bond.TxPackets != s.Ports[1].TxPackets || bond.TxBytes != s.Ports[1].TxBytes || vlan.TxPackets == 0 || vlan.TxPackets >= bond.TxPackets {
		t.Errorf("%d packets sent, %d by the bond, %d by its VLAN; drops %v", s.Ports[1].TxPackets, bond.TxPackets, vlan.TxPackets, s.Ports[0].Drops)
	}

	r = bondRig(t)
	r.fib.Bonds.Delete(3)
	r.queues[0].Play(in, 16)
	r.configure(r.addBond)
	r.wait("the drops", func(s *dataplane.Stats) bool { return s.Ports[0].Drops[batch.PortDown] == 16 })
	r.stop()
}

// An ECMP route over two bonds uses all their members alike: the choice of a member does not follow that of the bond.
func TestECMPOverBonds(t *testing.T) {
	const flows = 1000
	r := newRigOf(t, 5, 64)
	r.fib.VLANs.SetPhysical(5)
	var paths []fib.Path
	for i := range uint16(2) {
		number, err := r.fib.VLANs.Take()
		require.NoError(t, err)
		r.fib.Bonds.Add(number)
		r.fib.Bonds.SetMembers(number, []fib.Path{{Adjacency: uint32(1 + 2*i), Weight: 1}, {Adjacency: uint32(2 + 2*i), Weight: 1}})
		r.fib.SetPort(number, 0x020000000003, 1500)
		adjacency, err := r.fib.NewAdjacency(number)
		require.NoError(t, err)
		r.fib.SetAdjacency(adjacency, number, 0x0200000000aa)
		paths = append(paths, fib.Path{Adjacency: adjacency, Weight: 1})
	}
	r.routeTo(r.hop(fib.KindForward, paths...), "10.9.0.0/16", "fd09::/64")
	in := flowsTo(9, flows)
	r.queues[0].Play(in, len(in))
	r.configure(func() {
		r.router.AddPort(5, 1)
		r.router.AddPort(6, 3)
	})
	sent := func(s *dataplane.Stats) (n uint64) {
		for i := range s.Ports {
			n += s.Ports[i].TxPackets
		}
		return n
	}
	r.wait("the packets", func(s *dataplane.Stats) bool { return sent(s) == uint64(len(in)) })
	s := r.stop()
	for member := 1; member < 5; member++ {
		if n := s.Ports[member].TxPackets; n < flows*2/4*8/10 || n > flows*2/4*12/10 {
			t.Errorf("member %d has %d of %d flows, want a quarter", member, n, len(in))
		}
	}
}
