package esp

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

// Most received packets need one step after a device has found their SA, opened and admitted them: their numbers are to be
// confirmed. They have no jobs. The packets of an SA are confirmed together, in their order: the SA's replay window and
// counters have cache lines of their own, which are rarely in the nearest cache.

// headerLen is the length of an ESP header in bytes: SPI and sequence number.
const headerLen = 8

// opener is an SA by which a device has opened a packet.
type opener struct {
	SA     *ipsec.SA     // nil: not looked up yet
	counts *ipsec.Counts // nil: the packets of the SA need jobs
	list   uint16        // index plus 1 of its list in openedPackets, 0 for none
	aead   bool
	// Lengths in bytes.
	inner uint8 // of the headers that opening removes
	least uint8 // of the shortest frame
}

// openedPackets are the packets of a chunk that ConfirmOpened is to be called for, as one linked list per SA.
type openedPackets struct {
	lists []openedList // in the order of their first packets
	next  []uint16     // by packet: the next one of the list
	seqs  []uint32     // by packet: its sequence number
	at    [block]uint16
}

// openedList is a list of packets of an SA, in order.
type openedList struct {
	*opener
	first, last, n uint16
}

// begin makes room for the packets of a chunk.
func (x *openedPackets) begin(n int) {
	if n > len(x.next) {
		n = max(n, 2*len(x.next)) // grows a few times in all
		x.lists, x.next, x.seqs = make([]openedList, 0, n), make([]uint16, n), make([]uint32, n)
	}
}

// opener returns the inbound SA with keys at an index, or nil.
func (s *Stage) opener(key uint32) *opener {
	o := s.openers.at(key)
	if o == nil || o.SA == nil && !s.lookUpOpener(o, key) {
		return nil
	}
	return o
}

func (s *Stage) lookUpOpener(o *opener, key uint32) (ok bool) {
	sa := s.gateway.ByKey(key)
	if sa == nil || !sa.FoundByDevices() {
		return false
	}
	_, esp, least := sa.InboundESP()
	*o = opener{SA: sa, aead: sa.Combined(), inner: uint8(esp + headerLen + sa.IVLen()), least: uint8(packet.EthernetLen + esp + least)}
	if !sa.Limited() {
		o.counts = sa.Counts(s.worker)
	}
	return true
}

// PrefetchOpeners prefetches the SAs of packets that MakeOpenJob is called for, by the reports about up to 64 of them.
func (s *Stage) PrefetchOpeners(reports []SAReport) {
	n := 0
	for _, r := range reports {
		if o := s.opener(r.KeyIndex()); o != nil {
			s.distinctSAs[n], s.counts[n] = o.SA, o.counts
			n++
		}
	}
	ipsec.PrefetchInbound(s.distinctSAs[:n])
	ipsec.PrefetchCounts(s.counts[:n])
}

// Admitted is a bit in the address of the result of a packet that a device has opened and forwards. The device sets it if
// the policies of both directions admit the packet.
const Admitted = 1

// AddOpened adds packets to those that ConfirmOpened is called for, from the first one on as long as the device has opened,
// forwards to one of a number of ports, and admits them. It returns their number, and stores their results without the bit.
// The packets are those of a chunk from first on, and reports are what the device has stored about them. The other packets
// need jobs, or their results cannot be those of inner packets.
func (s *Stage) AddOpened(first int, in []batch.Frame, out, results []batch.Result, reports []SAReport, ports int) (n int) {
	in, out, reports = in[:len(results)], out[:len(results)], reports[:len(results)]
	x := &s.opened
	seqs := x.seqs[first:][:len(results)]
	for i, r := range results {
		if r.Verdict.Action() != batch.ActionForward || r.Addr()&Admitted == 0 || int(r.Verdict.Port()) >= ports {
			return i
		}
		r = batch.ForwardTo(r.Verdict.Port(), r.Addr()&^Admitted, r.Len())
		o := s.opener(reports[i].KeyIndex())
		if o == nil || o.counts == nil || !o.fits(in[i], r) {
			return i
		}
		out[i], seqs[i] = r, reports[i].Seq()
		if o.list == 0 {
			s.countFirstSA(o.SA, 0) // before jobs of later packets
			x.lists = append(x.lists, openedList{o, uint16(first + i), uint16(first + i), 1})
			o.list = uint16(len(x.lists))
			continue
		}
		l := &x.lists[o.list-1]
		x.next[l.last] = uint16(first + i)
		l.last = uint16(first + i)
		l.n++
	}
	return len(results)
}

// fits reports whether the result of a packet that a device has opened and forwards can be that of the inner packet: it is
// where the SA has it, and not longer.
func (o *opener) fits(f batch.Frame, r batch.Result) bool {
	return f.Len >= uint16(o.least) && r.Addr() == f.Addr+uint32(o.inner) && r.Len() >= packet.EthernetLen+packet.IPv4Len && r.Len() <= f.Len-uint16(o.inner)
}

// ConfirmOpened is Finish for the packets of a chunk that AddOpened has added: it applies replay windows, and counts the
// packets. out has their results.
func (s *Stage) ConfirmOpened(in []batch.Frame, out []batch.Result) {
	lists := s.opened.lists
	s.prefetchLists(lists[:min(block, len(lists))])
	for start := 0; start < len(lists); start += block {
		end := min(start+block, len(lists))
		s.prefetchWindows(lists[start:end])
		s.prefetchLists(lists[end:min(end+block, len(lists))])
		for i := start; i < end; i++ {
			s.confirmList(&lists[i], in, out)
		}
	}
	s.opened.lists = lists[:0]
}

// prefetchLists prefetches the SAs of up to a block of lists, and prefetchWindows then the words of their windows.
func (s *Stage) prefetchLists(lists []openedList) {
	for i := range lists {
		s.distinctSAs[i], s.counts[i] = lists[i].SA, lists[i].counts
	}
	ipsec.PrefetchInbound(s.distinctSAs[:len(lists)])
	ipsec.PrefetchCounts(s.counts[:len(lists)])
}

func (s *Stage) prefetchWindows(lists []openedList) {
	for i := range lists {
		s.distinctSAs[i], s.seqs[i] = lists[i].SA, uint64(s.opened.seqs[lists[i].first])
	}
	ipsec.PrefetchWindows(s.distinctSAs[:len(lists)], s.seqs[:len(lists)], s.worker)
}

// confirmList confirms the packets of a list.
func (s *Stage) confirmList(l *openedList, in []batch.Frame, out []batch.Result) {
	o, n := l.opener, int(l.n)
	o.list = 0
	s.countFirstSA(o.SA, n)
	if s.received += n; o.aead {
		s.aead += n
	} else {
		s.hmac += n
	}
	drop := dropFor(o.SA.Usable(ipsec.In))
	packets, bytes := uint64(0), uint64(0)
	for i := int(l.first); n > 0; {
		at, m := &s.opened.at, min(n, block)
		for j := range m {
			at[j], s.seqs[j] = uint16(i), uint64(s.opened.seqs[i])
			i = int(s.opened.next[i])
		}
		switch {
		case drop.Verdict != 0:
		case m == 1:
			s.fresh[0] = o.SA.Confirm(s.worker, s.seqs[0], true) == ipsec.OK
		default:
			o.SA.ConfirmAll(s.worker, s.seqs[:m], s.fresh[:])
		}
		for j, i := range at[:m] {
			f, r := &in[i], &out[i]
			switch f.Origin = f.Origin.With(batch.PolicyDone); {
			case drop.Verdict != 0:
				*r = drop
			case !s.fresh[j]:
				*r = batch.DropFor(batch.XfrmInStateSeqError)
			default:
				f.Addr, f.Len, f.Origin = r.Addr(), r.Len(), f.Origin.With(batch.InboundChecked)
				packets, bytes = packets+1, bytes+uint64(r.Len()-packet.EthernetLen)
			}
		}
		n -= m
	}
	if packets > 0 {
		o.counts.Add(packets, bytes)
	}
}
