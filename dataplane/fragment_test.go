package dataplane_test

import (
	"bytes"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/testutil"
)

// decode takes a frame apart.
func decode(frame []byte) gopacket.Packet {
	return gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
}

func TestOversizedPacketsAreFragmented(t *testing.T) {
	r := newRig(t, 64)
	frame := testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2, bytes.Repeat([]byte{1, 2, 3}, 550)...)
	r.queues[0].Play([][]byte{frame}, 1)
	s := r.run("two fragments", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == 2 })
	if s.Originated != 1 || s.Ports[0].Dropped() != 0 {
		t.Errorf("%d packets made, %d dropped", s.Originated, s.Ports[0].Dropped())
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

func TestFragmentationIsAllOrNothing(t *testing.T) {
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

// An engine that finds a packet too large at any size does not cause a loop.
func TestFittingPacketsAreNotFragmented(t *testing.T) {
	r := newRig(t, 64)
	r.config.Workers[0].Engine = &narrow{r.engine}
	r.queues[0].Play(numbered(1, "10.1.0.1"), 1)
	s := r.run("the drop", func(s *dataplane.Stats) bool { return s.Ports[0].Drops[batch.MTUExceeded] == 1 })
	if s.Originated != 0 {
		t.Errorf("%d packets made", s.Originated)
	}
}

type narrow struct{ dataplane.Engine }

func (n *narrow) Submit(c *batch.Chunk) {
	for i := range c.Out[:c.N] {
		c.Out[i] = batch.DropTooBig(65000)
	}
}
