package esp

import (
	"slices"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

// Most received packets need one step after a device has found their SA, opened and admitted them: their sequence numbers are to be
// confirmed by the SA's replay window. They have no jobs. AddOpened writes frames and results as if all numbers were new, and keeps the
// numbers in the entry of the SA. ConfirmOpened confirms those of an SA together, by blocks of its window (ipsec.SA.ConfirmBlock), for one
// or several chunks: windows are in cache lines of their own, which are rarely in the nearest cache. It restores address and
// length of the frames whose numbers are refused.

const (
	// headerLen is the length of an ESP header in bytes: SPI and sequence number.
	headerLen = 8
	// openedMost limits the packets of chunks that are confirmed together. A larger chunk is confirmed alone.
	openedMost = 4096
)

// opener is an SA by which a device has opened a packet.
type opener struct {
	SA          *ipsec.SA // nil: not looked up yet
	counts      *ipsec.Counts
	usableUntil time.Duration // by the gateway's clock: see ipsec.SA.UsableUntil

	// Packets that were added, without those whose numbers were refused.
	packets uint16
	bytes   uint32 // of the inner packets
	// Numbers that are to be confirmed, of one block of the window: see ipsec.SA.ConfirmBlock.
	pending, block uint32
	last           uint16 // index in openedPackets.packets of the last packet with a pending number

	listed  bool // in openedPackets.openers
	limited bool // in packets or bytes: its packets need jobs
	single  bool // numbers are confirmed one by one: the window is smaller than a block, but not 0
	aead    bool
	// Lengths in bytes.
	inner uint8 // of the headers that opening removes
	least uint8 // of the shortest frame

	_ [64 - 48]byte // one cache line, as packets of an SA rarely follow each other
}

// openedPackets are the packets of chunks that ConfirmOpened is to be called for.
type openedPackets struct {
	chunks  []openedChunk
	packets []openedPacket // of the chunks, one chunk after the other
	openers []*opener      // in the order of their first packets
	sas     []*ipsec.SA    // theirs, to prefetch them without the openers
}

type openedChunk struct {
	in    []batch.Frame
	out   []batch.Result
	first int // index of its first packet in openedPackets.packets
}

// openedPacket is a packet that was added; of others, the fields are arbitrary.
type openedPacket struct {
	seq      uint32
	len      uint16 // of the received frame, in bytes
	previous uint16 // index of the packet of the SA that was added before it; arbitrary for the first one
}

// begin begins a chunk. Without packets to confirm, the chunks before it are forgotten.
func (x *openedPackets) begin(in []batch.Frame, out []batch.Result) {
	if len(x.openers) == 0 {
		x.chunks, x.packets = x.chunks[:0], x.packets[:0]
	}
	first, n := len(x.packets), len(x.packets)+len(in)
	if n > cap(x.packets) { // once, with chunks of the usual size
		most := max(n, openedMost)
		x.packets = append(make([]openedPacket, 0, most), x.packets...)
		x.chunks, x.openers, x.sas = slices.Grow(x.chunks, most/block), slices.Grow(x.openers, most), slices.Grow(x.sas, most)
	}
	x.chunks, x.packets = append(x.chunks, openedChunk{in, out, first}), x.packets[:n]
}

// opener returns the inbound SA with keys at an index, or nil.
func (s *Stage) opener(key uint32) *opener {
	o := s.openers.at(key)
	if o == nil || o.SA == nil && !s.lookUpOpener(key) {
		return nil
	}
	return o
}

func (s *Stage) lookUpOpener(key uint32) (ok bool) {
	sa := s.gateway.ByKey(key)
	if sa == nil || !sa.FoundByDevices() || s.HostDecrypts(sa) {
		return false
	}
	_, esp, least := sa.InboundESP()
	window := sa.Config().ReplayWindow
	s.openers.use(key, opener{
		SA: sa, counts: sa.Counts(s.worker), usableUntil: sa.UsableUntil(&s.gateway.Clock),
		limited: sa.Limited(), single: window > 0 && window < ipsec.WindowBlock, aead: sa.Combined(),
		inner: uint8(esp + headerLen + sa.IVLen()), least: uint8(packet.EthernetLen + esp + least),
	})
	return true
}

// PrefetchOpeners prefetches the SAs of packets that MakeOpenJob is called for, by the reports about up to 64 of them.
func (s *Stage) PrefetchOpeners(reports []SAReport) {
	n := 0
	for _, r := range reports {
		if o := s.opener(r.KeyIndex()); o != nil {
			s.distinctSAs[n] = o.SA
			n++
		}
	}
	ipsec.PrefetchInbound(s.distinctSAs[:n])
}

// Admitted is a bit in the address of the result of a packet that a device has opened and forwards. The device sets it if
// the policies of both directions admit the packet.
const Admitted = 1

// AddOpened adds packets of the last chunk that BeginOpened has begun to those that ConfirmOpened is called for: from a first one on as
// long as the device has opened, forwards to one of a number of ports, and admits them. It returns their number, and stores their
// frames and results, without Admitted. results and reports are what the device has stored about them. If a packet is left, it is
// the host's, needs a job, or has an impossible result.
func (s *Stage) AddOpened(first int, results []batch.Result, reports []SAReport, ports int) (n int) {
	x := &s.opened
	c := &x.chunks[len(x.chunks)-1]
	in, out, reports := c.in[first:][:len(results)], c.out[first:][:len(results)], reports[:len(results)]
	at := c.first + first
	packets := x.packets[at:][:len(results)]
	ofFirst, aead := 0, 0 // packets of firstSA, and those of AEAD suites
	for i, r := range results {
		key := reports[i].KeyIndex()
		o := s.openers.at(key)
		// One comparison for the action and the port, as in AcceptSealed.
		if uint(r.Verdict-batch.Forward(0)) >= uint(ports) || r.Addr()&Admitted == 0 || o == nil || o.SA == nil && !s.lookUpOpener(key) {
			break
		}
		f := in[i]
		if r = batch.ForwardTo(r.Verdict.Port(), r.Addr()&^Admitted, r.Len()); o.limited || !o.fits(f, r) {
			break
		}
		seq := reports[i].Seq()
		ofWindow, number := seq/ipsec.WindowBlock, uint32(1)<<(seq%ipsec.WindowBlock)
		if o.pending != 0 && (o.block != ofWindow || o.pending&number != 0 || o.single) {
			s.confirmPending(o)
		}
		if o.pending == 0 {
			o.block = ofWindow
			if !o.listed {
				x.openers, x.sas, o.listed = append(x.openers, o), append(x.sas, o.SA), true
			}
		}
		o.pending |= number
		o.packets++
		o.bytes += uint32(r.Len() - packet.EthernetLen)
		packets[i] = openedPacket{seq, f.Len, o.last}
		o.last = uint16(at + i)
		in[i] = batch.Frame{Addr: r.Addr(), Len: r.Len(), Origin: f.Origin.With(batch.PolicyDone | batch.InboundChecked)}
		out[i] = r
		if s.firstSA == nil {
			s.firstSA = o.SA
		}
		if s.firstSA == o.SA {
			ofFirst++
		}
		if o.aead {
			aead++
		}
		n = i + 1
	}
	s.firstCount += ofFirst
	s.received, s.aead, s.hmac = s.received+n, s.aead+aead, s.hmac+n-aead
	return n
}

// fits reports whether the result of a packet that a device has opened and forwards can be that of the inner packet: it is
// where the SA has it, and not longer.
func (o *opener) fits(f batch.Frame, r batch.Result) bool {
	return f.Len >= uint16(o.least) && r.Addr() == f.Addr+uint32(o.inner) && r.Len() >= packet.EthernetLen+packet.IPv4Len && r.Len() <= f.Len-uint16(o.inner)
}

// ConfirmOpened is Finish for the packets that AddOpened has added: it applies replay windows, and counts the packets. Their frames
// and results may not be used before.
func (s *Stage) ConfirmOpened() {
	openers, sas := s.opened.openers, s.opened.sas
	ipsec.PrefetchOpened(sas[:min(block, len(sas))])
	for start := 0; start < len(sas); start += block {
		end := min(start+block, len(sas))
		ipsec.PrefetchOpened(sas[end:min(end+block, len(sas))])
		for _, o := range openers[start:end] {
			s.confirmPending(o)
			if o.packets > 0 {
				o.counts.Add(uint64(o.packets), uint64(o.bytes))
			}
			o.packets, o.bytes, o.listed = 0, 0, false
		}
	}
	clear(sas)
	s.opened.openers, s.opened.sas = openers[:0], sas[:0]
}

// confirmPending confirms the pending numbers of an SA.
func (s *Stage) confirmPending(o *opener) {
	refused, drop := o.pending, s.dropByOpener(o)
	if drop.Verdict == 0 {
		refused &^= o.SA.ConfirmBlock(s.worker, o.block, o.pending)
		drop = batch.DropFor(batch.XfrmInStateSeqError)
	}
	if refused != 0 {
		s.opened.refuse(o, refused, drop)
	}
	o.pending = 0
}

// dropByOpener returns the drop of packets of an SA that is not usable any more, or zero. It asks the SA when that may have changed:
// after its limit of age, or when indexes have changed, as Zero, which kills an SA, also frees its index.
func (s *Stage) dropByOpener(o *opener) (drop batch.Result) {
	if s.openers.changes == s.gateway.KeyChanges() && s.gateway.Clock.Now() < o.usableUntil {
		return drop
	}
	drop = dropFor(o.SA.Usable(ipsec.In))
	o.usableUntil = o.SA.UsableUntil(&s.gateway.Clock)
	return drop
}

// refuse drops packets with pending numbers of an SA, and restores their frames. The packets with pending numbers are the last ones of
// the SA, at most ipsec.WindowBlock.
func (x *openedPackets) refuse(o *opener, refused uint32, drop batch.Result) {
	k := len(x.chunks) - 1 // of the packet's chunk
	for i := o.last; refused != 0; i = x.packets[i].previous {
		p := &x.packets[i]
		number := uint32(1) << (p.seq % ipsec.WindowBlock)
		if refused&number == 0 {
			continue
		}
		refused &^= number
		for x.chunks[k].first > int(i) {
			k--
		}
		c := &x.chunks[k]
		f, r := &c.in[int(i)-c.first], &c.out[int(i)-c.first]
		o.packets--
		o.bytes -= uint32(r.Len() - packet.EthernetLen)
		*f = batch.Frame{Addr: f.Addr - uint32(o.inner), Len: p.len, Origin: f.Origin.Without(batch.InboundChecked)}
		*r = drop
	}
}
