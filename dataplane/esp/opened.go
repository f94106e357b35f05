package esp

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

// Most received packets need one step after a device has found their SA, opened and admitted them: their numbers are to be
// confirmed. They have no jobs.

// headerLen is the length of an ESP header in bytes: SPI and sequence number.
const headerLen = 8

// Opener is an SA by which a device has opened a packet.
type Opener struct {
	SA     *ipsec.SA     // nil: not looked up yet
	counts *ipsec.Counts // nil: the packets of the SA need jobs
	aead   bool
	// Lengths in bytes.
	inner uint8 // of the headers that opening removes
	least uint8 // of the shortest frame
}

// opener returns the inbound SA with keys at an index, or nil.
func (s *Stage) opener(key uint32) *Opener {
	o := s.openers.at(key)
	if o == nil {
		return nil
	}
	if o.SA == nil {
		sa := s.gateway.ByKey(key)
		if sa == nil || !sa.FoundByDevices() {
			return nil
		}
		_, esp, least := sa.InboundESP()
		*o = Opener{SA: sa, aead: sa.Combined(), inner: uint8(esp + headerLen + sa.IVLen()), least: uint8(packet.EthernetLen + esp + least)}
		if !sa.Limited() {
			o.counts = sa.Counts(s.worker)
		}
	}
	return o
}

// PrefetchFound prefetches the SAs of packets that ConfirmOpened or Finish is called for next but one, and
// PrefetchFoundWindows the words of the windows of the next ones. Each takes what the device has stored for up to 64
// packets: indexes of keys in the lower halves, and sequence numbers.
func (s *Stage) PrefetchFound(found []uint64) {
	n := 0
	for _, word := range found {
		if o := s.opener(uint32(word)); o != nil {
			s.distinctSAs[n], s.counts[n] = o.SA, o.counts
			n++
		}
	}
	ipsec.PrefetchInbound(s.distinctSAs[:n])
	ipsec.PrefetchCounts(s.counts[:n])
}

func (s *Stage) PrefetchFoundWindows(found []uint64) {
	n := 0
	for _, word := range found {
		if o := s.opener(uint32(word)); o != nil {
			s.distinctSAs[n], s.seqs[n] = o.SA, word>>32
			n++
		}
	}
	ipsec.PrefetchWindows(s.distinctSAs[:n], s.seqs[:n], s.worker)
}

// Opener returns the SA by which the device has opened a packet, or nil if such packets need jobs.
func (s *Stage) Opener(key uint32) *Opener {
	o := s.opener(key)
	if o == nil || o.counts == nil || o.SA.Usable(ipsec.In) != ipsec.OK {
		return nil
	}
	return o
}

// Fits reports whether the result of a packet that a device has opened and forwards can be that of the inner packet: it is
// where the SA has it, and not longer.
func (o *Opener) Fits(f batch.Frame, r batch.Result) bool {
	return f.Len >= uint16(o.least) && r.Addr() == f.Addr+uint32(o.inner) && r.Len() >= packet.EthernetLen+packet.IPv4Len && r.Len() <= f.Len-uint16(o.inner)
}

// ConfirmOpened is Finish for up to 64 packets of an SA that the device has opened, forwards, and admits: it applies the
// replay window, and counts them. found has their sequence numbers in the upper halves.
func (s *Stage) ConfirmOpened(o *Opener, in []batch.Frame, out []batch.Result, found []uint64) {
	out, found = out[:len(in)], found[:len(in)]
	if len(in) == 1 {
		s.fresh[0] = o.SA.Confirm(s.worker, found[0]>>32, true) == ipsec.OK
	} else {
		for i, word := range found {
			s.seqs[i] = word >> 32
		}
		o.SA.ConfirmAll(s.worker, s.seqs[:len(in)], s.fresh[:])
	}
	packets, bytes := uint64(0), uint64(0)
	for i := range in {
		f, r := &in[i], &out[i]
		if !s.fresh[i] {
			f.Origin = f.Origin.With(batch.PolicyDone)
			*r = batch.DropFor(batch.XfrmInStateSeqError)
			continue
		}
		f.Addr, f.Len, f.Origin = r.Addr(), r.Len(), f.Origin.With(batch.PolicyDone).With(batch.InboundChecked)
		packets, bytes = packets+1, bytes+uint64(r.Len()-packet.EthernetLen)
	}
	o.counts.Add(packets, bytes)
	s.use(o.SA, len(in))
	if s.received += len(in); o.aead {
		s.aead += len(in)
	} else {
		s.hmac += len(in)
	}
}
