package dataplane

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/packet/fragment"
)

// fragmenter is the state of IP fragmentation.
type fragmenter struct {
	id uint32 // identification of the latest fragmented IPv6 packet
}

// mayFragment reports whether a router may fragment a packet: IPv4 without DF.
func mayFragment(p []byte) bool {
	return len(p) >= packet.IPv4Len && p[0]>>4 == 4 && p[6]&0x40 == 0
}

// fragment enqueues all fragments of a packet, or none. It refuses a packet that fits the MTU: the
// engine would drop it with the same verdict again, without end.
func (w *worker) fragment(f batch.Frame, p []byte, mtu int) bool {
	mtu = min(mtu, w.slow.maxLen) // the MTU of a port may have been raised above the frame size
	s, err := w.slow.frag.split(p, mtu)
	if err != nil || s.Count() < 2 || !w.slow.room(w.pool, s.Count(), mtu) {
		return false
	}
	w.stats.originated.Add(int64(s.Count() - 1))
	for i := range s.Count() {
		to, buffer := w.allocFrame(mtu)
		to.Origin = f.Origin.Without(batch.Reassembled) // policies applied to the packet are applied to its fragments
		w.enqueue(to, s.Put(buffer, i))
	}
	return true
}

// split plans the fragments of a packet.
func (s *fragmenter) split(p []byte, mtu int) (fragment.Split, error) {
	if p[0]>>4 == 4 {
		return fragment.IPv4(p, mtu)
	}
	s.id++
	return fragment.IPv6(p, mtu, s.id)
}
