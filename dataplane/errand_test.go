package dataplane_test

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/testutil"
)

// startWithWayBack starts the router with a route to the tests' sources, by port 0,
// which has addresses.
func (r *rig) startWithWayBack() {
	r.t.Helper()
	for _, s := range []string{"192.0.2.0/24", "2001:db8::/64"} {
		prefix, insert := netip.MustParsePrefix(s), r.fib.IPv4.Insert
		if prefix.Addr().Is6() {
			insert = r.fib.IPv6.Insert
		}
		if err := insert(prefix, r.hops[0]); err != nil {
			r.t.Fatal(err)
		}
	}
	r.addresses = dataplane.Addresses{IPv4: netip.MustParseAddr("192.0.2.254"), IPv6: netip.MustParseAddr("2001:db8::fe")}
	r.start()
}

// decode takes a frame apart.
func decode(frame []byte) gopacket.Packet {
	return gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
}

// However many packets are refused, few errors are sent.
func TestErrorsAreLimited(t *testing.T) {
	r := newRig(t, 256)
	r.queues[0].Play(numbered(1000, "172.16.0.1"), 100_000)
	r.startWithWayBack()
	r.wait("all packets", func(s *dataplane.Stats) bool { return s.Ports[0].Dropped() == 100_000 })
	if s := r.stop(); s.Made == 0 || s.Made > 30 {
		t.Errorf("%d errors about packets of one source at once, want 10 or some more", s.Made)
	}
}

// What is too large and may be cut is.
func TestPacketsAreCut(t *testing.T) {
	r := newRig(t, 64)
	frame := testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2, bytes.Repeat([]byte{1, 2, 3}, 550)...)
	r.queues[0].Play([][]byte{frame}, 1)
	r.start()
	r.wait("two fragments", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == 2 })
	s := r.stop()
	if s.Made != 1 || s.Ports[0].Dropped() != 0 {
		t.Errorf("%d packets made, %d dropped", s.Made, s.Ports[0].Dropped())
	}
	var payload []byte
	for i, f := range r.out[1] {
		ip := decode(f).NetworkLayer().(*layers.IPv4)
		if int(ip.Length) > 1500 || ip.TTL != 63 || (ip.Flags&layers.IPv4MoreFragments != 0) != (i == 0) || int(ip.FragOffset)*8 != len(payload) {
			t.Errorf("fragment %d: %+v", i, ip)
		}
		payload = append(payload, ip.Payload...)
	}
	if !bytes.Equal(payload, frame[34:]) {
		t.Error("the fragments are not the packet")
	}
}

// Where there is no room for all of a packet's fragments, it is dropped: none is sent in part.
func TestPacketsWithoutRoomAreNotCut(t *testing.T) {
	const n = 1024
	r := newRig(t, 256)
	r.queues[0].Play([][]byte{testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2, make([]byte, 1650)...)}, n)
	r.start()
	r.wait("all packets", func(s *dataplane.Stats) bool {
		return s.Ports[0].Drops[batch.MTUExceeded]+s.Ports[1].TxPackets/2 == n
	})
	s := r.stop()
	if dropped := s.Ports[0].Drops[batch.MTUExceeded]; dropped == 0 || dropped == n || int(s.Ports[1].TxPackets) != 2*int(n-dropped) {
		t.Errorf("%d packets of %d dropped, %d fragments sent", dropped, n, s.Ports[1].TxPackets)
	}
}

// What an engine finds too large at any size is not tried for ever.
func TestPacketsThatFitAreNotCut(t *testing.T) {
	r := newRig(t, 64)
	r.config.Workers[0].Engine = &narrow{r.engine}
	r.queues[0].Play(numbered(1, "10.1.0.1"), 1)
	r.start()
	r.wait("the drop", func(s *dataplane.Stats) bool { return s.Ports[0].Drops[batch.MTUExceeded] == 1 })
	if s := r.stop(); s.Made != 0 {
		t.Errorf("%d packets made", s.Made)
	}
}

type narrow struct{ dataplane.Engine }

func (n *narrow) Submit(c *batch.Chunk) {
	for i := range c.Out[:c.N] {
		c.Out[i] = batch.Result{Verdict: batch.Drop(batch.MTUExceeded), Len: 65000}
	}
}

// Fragments of ESP for this host, as it is or in UDP, become a packet before an engine
// decides on it.
func TestFragmentsOfESPAreCollected(t *testing.T) {
	for _, proto := range []byte{50, 17} {
		r := newRig(t, 64)
		whole := testutil.Edit(testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2, make([]byte, 100)...), 9, proto)
		first := testutil.Edit(whole[:14+20+64], 2, 0, 84, 0, 7, 0x20, 0)
		last := testutil.Edit(append(bytes.Clone(whole[:34]), whole[34+64:]...), 2, 0, byte(len(whole)-34-64+20), 0, 7, 0, 8)
		local := &taker{Engine: r.engine}
		r.config.Workers[0].Engine = local
		r.queues[0].Play([][]byte{last, first}, 2)
		r.start()
		r.wait("the packet", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == 1 })
		s := r.stop()
		if s.Merged != 1 || s.Ports[0].Dropped() != 0 || !bytes.Equal(r.out[1][0][34:], whole[34:]) {
			t.Errorf("protocol %d: %d fragments merged, %d dropped; % x", proto, s.Merged, s.Ports[0].Dropped(), r.out[1][0])
		}
	}
}

// Fragments whose packet never becomes whole are dropped, though they were taken for
// others': when their time is up, or the router stops.
func TestFragmentsThatStayAloneAreDropped(t *testing.T) {
	alone := testutil.Edit(testutil.Edit(testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2, make([]byte, 64)...), 9, 50), 6, 0x20, 0)
	r := newRig(t, 64)
	r.config.Workers[0].Engine = &taker{Engine: r.engine}
	r.queues[0].Play([][]byte{alone}, 1)
	r.start()
	r.wait("the fragment", func(s *dataplane.Stats) bool { return s.Merged == 1 })
	r.wait("its end", func(s *dataplane.Stats) bool { return s.Ports[0].Drops[batch.FragmentsMissing] == 1 })
	if s := r.stop(); s.Merged != 0 {
		t.Errorf("%d fragments count as merged", s.Merged)
	}

	r = newRig(t, 64)
	r.config.Workers[0].Engine = &taker{Engine: r.engine}
	r.queues[0].Play([][]byte{alone}, 1)
	r.start()
	r.wait("the fragment", func(s *dataplane.Stats) bool { return s.Merged == 1 })
	if s := r.stop(); s.Merged != 0 || s.Ports[0].Drops[batch.FragmentsMissing] != 1 {
		t.Errorf("stopped: %d merged, drops %v", s.Merged, s.Ports[0].Drops)
	}
}

// taker is an engine that wants fragments reassembled.
type taker struct{ dataplane.Engine }

func (l *taker) Submit(c *batch.Chunk) {
	l.Engine.Submit(c)
	for i := range c.Out[:c.N] {
		if c.Out[i].Len < 130 {
			c.Out[i] = batch.Result{Verdict: batch.Drop(batch.FragmentsMissing)}
		}
	}
}

// Errors that find no way are forgotten, and beget no errors.
func TestErrorsWithoutAWayBack(t *testing.T) {
	r := newRig(t, 64)
	r.queues[0].Play(numbered(5, "172.16.0.1"), 5)
	r.start()
	r.wait("5 drops", func(s *dataplane.Stats) bool { return s.Ports[0].Dropped() == 5 })
	time.Sleep(20 * time.Millisecond)
	if s := r.stop(); s.Made != 0 || s.Ports[0].Drops[batch.NoRoute] != 5 {
		t.Errorf("%d packets made, drops %v", s.Made, s.Ports[0].Drops)
	}
}
