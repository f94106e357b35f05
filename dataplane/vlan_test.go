package dataplane_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/lane"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/packet/filter"
)

// tagged returns a frame with tags behind its MAC addresses: pairs of EtherType and TCI.
func tagged(frame []byte, tags ...uint16) []byte {
	b := bytes.Clone(frame[:12])
	for _, half := range tags {
		b = binary.BigEndian.AppendUint16(b, half)
	}
	return append(b, frame[12:]...)
}

// addVLAN adds a logical port with a MAC address, an MTU of 1500 bytes, and a neighbor for 10.N.0.0/16
// and fd0N::/64, N being its number.
func (r *rig) addVLAN(parent uint16, etherType, vid uint16) (number uint16) {
	r.t.Helper()
	number, err := r.fib.VLANs.Take()
	require.NoError(r.t, err)
	tag, _ := fib.MakeTag(etherType, vid)
	require.NoError(r.t, r.fib.VLANs.Add(number, parent, tag))
	r.fib.SetPort(number, fib.MAC(0x020000000000+uint64(number)), 1500)
	adjacency, err := r.fib.NewAdjacency(number)
	require.NoError(r.t, err)
	r.fib.SetAdjacency(adjacency, number, 0x0200000000aa)
	id := r.hop(fib.KindForward, fib.Path{Adjacency: adjacency, Weight: 1})
	r.routeTo(id, fmt.Sprintf("10.%d.0.0/16", number), fmt.Sprintf("fd0%d::/64", number))
	return number
}

// forwarded returns a frame as it leaves by a port, without tags and padding.
func forwarded(frame []byte, port uint16) []byte {
	b := bytes.Clone(frame)
	p := b[packet.EthernetLen:]
	if p[0]>>4 == 4 {
		(*packet.IPv4)(p).DecrementTTL()
		b = b[:packet.EthernetLen+(*packet.IPv4)(p).TotalLen()]
	} else {
		p[7]--
		b = b[:packet.EthernetLen+packet.IPv6Len+(*packet.IPv6)(p).PayloadLen()]
	}
	(*packet.Ethernet)(b).SetMACs(0x0200000000aa, 0x020000000000+uint64(port))
	return b
}

// vlanRig has VLAN 100 on port 0 as port 2; on port 1, VLAN 200 as port 3, service VLAN 300 as port 4,
// and VLAN 7 in it as port 5.
func vlanRig(t *testing.T, maxPackets int) *rig {
	r := newRig(t, maxPackets)
	r.fib.VLANs.SetPhysical(2)
	r.addVLAN(0, 0x8100, 100)
	r.addVLAN(1, 0x8100, 200)
	r.addVLAN(r.addVLAN(1, 0x88a8, 300), 0x8100, 7)
	return r
}

func (r *rig) addPorts() {
	for number, physical := range map[uint16]uint16{2: 0, 3: 1, 4: 1, 5: 1} {
		r.router.AddPort(number, physical)
	}
}

// egressTags are the tags of transmitted frames by port.
var egressTags = [6][]uint16{2: {0x8100, 100}, 3: {0x8100, 200}, 4: {0x88a8, 300}, 5: {0x88a8, 300, 0x8100, 7}}

// Frames of every VLAN are forwarded to every VLAN, with the bytes of an untagged frame and the tags of
// the egress port.
func TestVLANTagsAreRemovedAndAdded(t *testing.T) {
	two, err := lane.Compile([]lane.Lane{
		{Name: "a", Deadline: time.Millisecond, Match: []lane.Match{{Protocol: 17, DstPorts: lane.Range{First: 2, Last: 2}, Plain: true}}}, {Name: "b"},
	}, &gateway.Gateway{})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		lanes     *lane.Lanes
		byWorkers bool
	}{"one lane": {nil, false}, "two lanes": {two, false}, "all tags by workers": {nil, true}} {
		t.Run(name, func(t *testing.T) { testVLANTags(t, c.lanes, c.byWorkers) })
	}
}

func testVLANTags(t *testing.T, lanes *lane.Lanes, byWorkers bool) {
	r := vlanRig(t, 256)
	if byWorkers {
		r.fib.VLANs.LeaveTags()
	}
	r.config.Lanes = lanes
	arrivals := []struct {
		queue int
		tags  []uint16
		port  int // that received it, -1 if unknown
	}{
		{0, nil, 0}, {0, []uint16{0x8100, 100}, 2}, {0, []uint16{0x8100, 0xe064}, 2}, // with a priority
		{0, []uint16{0x8100, 0}, 0}, {0, []uint16{0x8100, 0xe000}, 0}, {0, []uint16{0x8100, 0, 0x8100, 100}, 2}, {0, []uint16{0x8100, 100, 0x8100, 0}, 2},
		{0, []uint16{0x8100, 101}, -1}, {0, []uint16{0x88a8, 100}, -1}, {0, []uint16{0x8100, 200}, -1}, {0, []uint16{0x8100, 100, 0x8100, 7}, -1},
		{0, []uint16{0x8100, 0, 0x8100, 0, 0x8100, 100}, -1},
		{1, nil, 1}, {1, []uint16{0x8100, 200}, 3}, {1, []uint16{0x88a8, 300}, 4}, {1, []uint16{0x88a8, 300, 0x8100, 7}, 5},
		{1, []uint16{0x8100, 300, 0x8100, 7}, -1}, {1, []uint16{0x88a8, 300, 0x88a8, 7}, -1}, {1, []uint16{0x8100, 7}, -1}, {1, []uint16{0x8100, 100}, -1},
	}
	var in [2][][]byte
	want := map[string]int{} // frames by egress port and bytes
	var rx, tx, unknown, bytesIn, bytesOut [6]uint64
	for i, a := range arrivals {
		for to := range uint16(6) {
			for _, f := range [][]byte{
				testutil.UDP4("192.0.2.1", fmt.Sprintf("10.%d.0.1", to), 1, uint16(i), 1, 2, 3), testutil.UDP6("2001:db8::1", fmt.Sprintf("fd0%d::1", to), 1, uint16(i), 1, 2, 3),
			} {
				in[a.queue] = append(in[a.queue], tagged(f, a.tags...))
				rx[a.queue]++
				if a.port < 0 {
					unknown[a.queue]++
					continue
				}
				if a.port > 1 {
					rx[a.port]++
					bytesIn[a.port] += uint64(len(f))
				}
				out := to
				if to > 1 {
					out = min(to-2, 1)
					tx[to]++
					bytesOut[to] += uint64(len(forwarded(f, to)))
				}
				tx[out]++
				want[fmt.Sprintf("%d %x", out, tagged(forwarded(f, to), egressTags[to]...))]++
			}
		}
	}
	for i := range in {
		r.queues[i].Play(in[i], len(in[i]))
	}
	r.configure(r.addPorts)
	r.wait("the packets", func(s *dataplane.Stats) bool {
		return s.Ports[0].TxPackets+s.Ports[1].TxPackets+s.Ports[0].Dropped()+s.Ports[1].Dropped() == uint64(len(in[0])+len(in[1]))
	})
	s := r.stop()
	for i, frames := range r.out {
		for _, f := range frames {
			key := fmt.Sprintf("%d %x", i, f)
			if want[key]--; want[key] < 0 {
				t.Errorf("port %d sends an unexpected frame: %x", i, f)
			}
		}
	}
	for f, n := range want {
		if n > 0 {
			t.Errorf("%d frames are missing: %s", n, f)
		}
	}
	for i := range s.Ports {
		if p := &s.Ports[i]; p.RxPackets != rx[i] || p.TxPackets != tx[i] || p.Drops[batch.VLANUnknown] != unknown[i] {
			t.Errorf("port %d: %d received, %d sent, %d unknown; want %d, %d, %d", i, p.RxPackets, p.TxPackets, p.Drops[batch.VLANUnknown], rx[i], tx[i], unknown[i])
		}
	}
	if len(s.Logical) != 4 {
		t.Fatalf("%d logical ports", len(s.Logical))
	}
	for i := range s.Logical {
		p := &s.Logical[i]
		n := p.Number
		if p.RxPackets != rx[n] || p.TxPackets != tx[n] || p.Dropped() != 0 {
			t.Errorf("port %d: %d received, %d sent, %d dropped; want %d, %d, 0", n, p.RxPackets, p.TxPackets, p.Dropped(), rx[n], tx[n])
		}
		if p.RxBytes != bytesIn[n] || p.TxBytes != bytesOut[n] {
			t.Errorf("port %d: %d bytes received, %d sent, want those without tags: %d, %d", n, p.RxBytes, p.TxBytes, bytesIn[n], bytesOut[n])
		}
	}
}

// Frames that end in a tag or before, or are garbage behind one, are dropped and counted.
func TestTruncatedTags(t *testing.T) {
	r := vlanRig(t, 256)
	whole := tagged(testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2, make([]byte, 30)...), 0x8100, 100)
	var in [][]byte
	for n := range len(whole) - 1 {
		in = append(in, whole[:n+1])
	}
	r.queues[0].Play(in, len(in))
	r.configure(r.addPorts)
	r.wait("the drops", func(s *dataplane.Stats) bool { return s.Ports[0].Dropped()+s.Logical[0].Dropped() == uint64(len(in)) })
	s := r.stop()
	if n := s.Ports[0].Drops[batch.TooShort]; n != 17 {
		t.Errorf("%d frames without a whole tag are too short, want 17: %v", n, s.Ports[0].Drops)
	}
	if s.Logical[0].RxPackets != uint64(len(in)-17) || s.Logical[0].Dropped() != uint64(len(in)-17) {
		t.Errorf("the VLAN received %d and dropped %d", s.Logical[0].RxPackets, s.Logical[0].Dropped())
	}
}

// ICMP errors, fragments and packets that waited for their neighbor leave with the tags of their VLAN.
func TestSlowPathOfVLANs(t *testing.T) {
	r := vlanRig(t, 256)
	r.fib.SetPort(3, 0x020000000003, 600)
	expired := testutil.UDP4("10.2.0.9", "10.3.0.1", 1, 2)
	for expired[packet.EthernetLen+8] > 1 {
		(*packet.IPv4)(expired[packet.EthernetLen:]).DecrementTTL()
	}
	big := testutil.UDP4("10.2.0.9", "10.3.0.1", 1, 2, make([]byte, 1400)...)
	r.queues[0].Play([][]byte{tagged(expired, 0x8100, 100), tagged(big, 0x8100, 100)}, 2)
	r.configure(func() {
		r.addPorts()
		r.router.SetAddresses(2, dataplane.Addresses{IPv4: netip.MustParseAddr("10.2.0.254")})
	})
	r.wait("an error and the fragments", func(s *dataplane.Stats) bool { return s.Ports[0].TxPackets == 1 && s.Ports[1].TxPackets == 3 })
	s := r.stop()
	e := r.out[0][0]
	if !bytes.Equal(e[12:16], []byte{0x81, 0, 0, 100}) || !bytes.Equal(e[18+12:18+20], []byte{10, 2, 0, 254, 10, 2, 0, 9}) {
		t.Errorf("the ICMP error is %x", e)
	}
	for _, f := range r.out[1] {
		if !bytes.Equal(f[12:16], []byte{0x81, 0, 0, 200}) || len(f) > 18+600 {
			t.Errorf("a fragment of %d bytes: %x", len(f), f[:40])
		}
	}
	if s.Logical[0].TxPackets != 1 || s.Logical[1].TxPackets != 3 || s.Logical[0].Drops[batch.TTLExpired] != 1 {
		t.Errorf("%d errors, %d fragments, %d expired", s.Logical[0].TxPackets, s.Logical[1].TxPackets, s.Logical[0].Drops[batch.TTLExpired])
	}
}

// A packet for a VLAN that is deleted behind the engine is dropped. The drops of a deleted VLAN become those
// of its physical port, also when its number is used again.
func TestDeletedVLAN(t *testing.T) {
	r := vlanRig(t, 256)
	tag, _ := fib.MakeTag(0x8100, 200)
	r.fib.VLANs.Delete(3, 1, tag) // routes still lead to it
	r.queues[0].Play([][]byte{tagged(testutil.UDP4("192.0.2.1", "10.3.0.1", 1, 2), 0x8100, 100), tagged(testutil.UDP4("192.0.2.1", "172.16.0.1", 1, 2), 0x8100, 100)}, 200)
	r.configure(r.addPorts)
	r.wait("the drops", func(s *dataplane.Stats) bool { return s.Logical[0].Dropped() == 200 })
	if s := r.router.Stats(); s.Logical[0].Drops[batch.PortDown] != 100 || s.Logical[0].Drops[batch.NoRoute] != 100 {
		t.Errorf("drops %v", s.Logical[0].Drops)
	}
	for range 2 {
		r.router.DeletePort(2)
		if s := r.router.Stats(); s.Ports[0].Dropped() != 200 || len(s.Logical) != 3 {
			t.Errorf("after the deletion: %d drops of the physical port, %d logical ports", s.Ports[0].Dropped(), len(s.Logical))
		}
		r.router.AddPort(2, 0)
		if s := r.router.Stats(); s.Ports[0].Dropped() != 200 || s.Logical[0].RxPackets != 0 || s.Logical[0].Dropped() != 0 {
			t.Errorf("a new port begins with %d received, %d dropped", s.Logical[0].RxPackets, s.Logical[0].Dropped())
		}
	}
	r.stop()
}

// cacheSpy counts chunks: those that are marked as cached, those with packets of a port without VLANs, and others with
// packets from the slow path. Chunks whose mark is wrong are counted, too.
type cacheSpy struct {
	dataplane.Engine
	cached, received, slow, wrong int
}

func (s *cacheSpy) Submit(c *batch.Chunk) {
	received := slices.ContainsFunc(c.In[:c.N], func(f batch.Frame) bool { return f.Origin.Port() == 2 })
	slow := slices.ContainsFunc(c.In[:c.N], func(f batch.Frame) bool { return f.Origin.Has(batch.Own) })
	switch {
	case received:
		s.received++
	case slow:
		s.slow++
	case c.Cached:
		s.cached++
	}
	if c.Cached == (received || slow) {
		s.wrong++
	}
	s.Engine.Submit(c)
}

// A chunk is marked as cached if the worker has removed the tags of all of its packets.
func TestCachedChunks(t *testing.T) {
	r := newRigOf(t, 3, 64)
	r.fib.VLANs.SetPhysical(3)
	r.addVLAN(0, 0x8100, 100)
	spy := &cacheSpy{Engine: r.engine}
	r.config.Workers[0].Engine = spy
	packet := testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2)
	var frames [][]byte
	for source := range 60 { // ICMP errors are limited by source
		expired := testutil.Edit(testutil.UDP4(fmt.Sprintf("10.1.0.%d", 9+source), "10.1.0.1", 1, 2), 8, 1)
		frames = append(frames, tagged(packet, 0x8100, 100), packet, tagged(packet, 0x8100, 100), tagged(expired, 0x8100, 100))
	}
	r.queues[0].Play(frames, 4000)
	r.queues[2].Play([][]byte{packet}, 200)
	r.configure(func() { r.router.AddPort(3, 0) })
	r.wait("the packets", func(s *dataplane.Stats) bool { return s.Ports[0].RxPackets == 4000 && s.Ports[2].RxPackets == 200 })
	r.stop()
	if spy.wrong > 0 || spy.cached == 0 || spy.received == 0 || spy.slow == 0 {
		t.Errorf("of the chunks, %d are cached, %d have packets of a port without VLANs, %d of the slow path; %d are marked wrongly", spy.cached, spy.received, spy.slow, spy.wrong)
	}
}

// A capture has the packets of a VLAN as those of its port, without tags, and so has a trace, whoever adds the tags.
func TestCaptureOfVLANs(t *testing.T) {
	for to := uint16(3); to <= 5; to++ {
		testCaptureOfVLANs(t, to, false)
		testCaptureOfVLANs(t, to, true)
	}
}

func testCaptureOfVLANs(t *testing.T, to uint16, byWorkers bool) {
	r := vlanRig(t, 256)
	if byWorkers {
		r.fib.VLANs.LeaveTags()
	}
	frame := testutil.UDP4("192.0.2.1", fmt.Sprintf("10.%d.0.1", to), 1, 2)
	r.queues[0].Play([][]byte{tagged(frame, 0x8100, 100)}, 10)
	var all, one *dataplane.Capture
	r.configure(func() {
		r.addPorts()
		cfg := dataplane.CaptureConfig{Points: [dataplane.NumPoints]bool{dataplane.Received: true, dataplane.Sent: true, dataplane.Decided: true}, Filter: &filter.Filter{}, Snap: 100, Room: 100}
		all = r.router.StartCapture(cfg)
		cfg.Ports = []bool{2: true}
		one = r.router.StartCapture(cfg)
	})
	r.wait("the packets", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == 10 })
	r.stop()
	n := 0
	all.Read(func(rec *dataplane.Record) bool {
		want, port := frame, uint16(2)
		if rec.Point == dataplane.Sent {
			want, port = forwarded(frame, to), to
		}
		if d := rec.Decision; rec.Point == dataplane.Decided && (!bytes.Equal(d.After, forwarded(frame, to)) || d.Moved || d.Result.Verdict.Port() != to || int(d.Result.Len()) != len(forwarded(frame, to))) {
			t.Fatalf("to port %d: decided %+v, want %x", to, d, forwarded(frame, to))
		}
		if n++; rec.Port != port || !bytes.Equal(rec.Data, want) || rec.Ingress != 2 || rec.Len != len(want) {
			t.Errorf("point %d, port %d from %d: %x, want %x", rec.Point, rec.Port, rec.Ingress, rec.Data, want)
		}
		return true
	})
	if m := one.Read(func(rec *dataplane.Record) bool { return rec.Port == 2 }); n != 30 || m != 20 {
		t.Errorf("%d records of all ports, %d of port 2", n, m)
	}
	for i, f := range r.out[1] {
		if !bytes.Equal(f, tagged(forwarded(frame, to), egressTags[to]...)) {
			t.Errorf("the capture changed frame %d: %x", i, f)
		}
	}
}
