package cpu

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// ipsec is what an engine protects packets with.
type ipsec struct {
	gateway *gateway.Gateway
	worker  int // among those that share the gateway's associations
	mtu     int // of the packet that was too large last

	// The packets of a block that are in clear, for the policies: their index in the block,
	// the association that they arrived by, and what the policies of both directions say.
	n            int
	at           [block]int32
	by           [block]*esp.SA
	l4           [block]packet.L4 // of IPv6 packets
	flows        [block]gateway.Flow
	enter, leave [block]esp.Error
	sas          [block]*esp.SA
	mtus         [block]int // of the way of such an association
	seen         uint64     // of associations: of no use, but for having been read
	touched      byte       // read, so that caches have what is beside it
}

// Secure has the engine apply a gateway's policies to every packet, as one of its
// workers.
func (e *Engine) Secure(g *gateway.Gateway, worker int) { e.ipsec = &ipsec{gateway: g, worker: worker} }

// secure applies the policies to a chunk, before anything else is decided: packets that
// arrived protected become those that they carried, packets that are to be protected
// become ESP, and what may not pass is dropped. The rest of the engine routes what is
// there then. Where there are tasks, what one can be made of is left to a device.
func (e *Engine) secure(in []batch.Frame, out []batch.Result, tasks []Task) {
	e.ipsec.gateway.Clock.Set(batch.Clock())
	for start := 0; start < len(in); start += block {
		end := min(start+block, len(in))
		var some []Task
		if tasks != nil {
			some = tasks[start:end]
		}
		e.secureBlock(in[start:end], out[start:end], some, nil)
	}
}

// secureBlock is secure for a block of packets: those that were received or, if by is not
// nil, that arrived by an association and were opened.
//
// The policies are looked up for all packets at once, and the associations that they
// name are read before the first packet is protected, so that cache misses overlap.
func (e *Engine) secureBlock(in []batch.Frame, out []batch.Result, tasks []Task, by *esp.SA) {
	s := e.ipsec
	s.n = 0
	task := func(i int) *Task {
		if tasks == nil {
			return nil
		}
		return &tasks[i]
	}
	for i := range in {
		out[i] = batch.Result{}
		if in[i].Port&batch.Secured != 0 {
			continue
		}
		if listed, reason := e.arrive(&in[i], i, by, task(i)); !listed {
			e.note(&in[i], &out[i], task(i), reason)
		}
	}
	s.gateway.MayEnterAll(s.enter[:], s.flows[:s.n], s.by[:])
	s.gateway.ProtectAll(s.sas[:], s.leave[:], s.flows[:s.n])
	e.judgeQuotes(in)
	var last *esp.SA
	mtu := 0
	for j, sa := range s.sas[:s.n] {
		if sa == nil {
			continue
		}
		if sa != last {
			last, mtu = sa, e.mtuOf(sa)
			s.seen += sa.Touch(s.worker, tasks == nil)
		}
		s.mtus[j] = mtu
		sa.Expect(s.worker)
	}
	for j := range s.n {
		i := int(s.at[j])
		e.note(&in[i], &out[i], task(i), e.enterAndLeave(&in[i], j, task(i)))
	}
	for _, sa := range s.sas[:s.n] {
		if sa != nil {
			sa.Release(s.worker)
		}
	}
}

// judgeQuotes has the policies judge ICMP errors as answers to the packets that they quote,
// where they have nothing to say of the errors' own addresses, which are those of any router
// on the way (RFC 4301 section 6.2): one that came out of a tunnel may have come by it if an
// answer may, and one that might leave in clear is protected as an answer is. There is no way
// for that in transport mode.
func (e *Engine) judgeQuotes(in []batch.Frame) {
	s := e.ipsec
	for j := range s.n {
		stranger, clear := s.enter[j] == esp.InNoPols, s.sas[j] == nil && s.leave[j] == esp.OK
		if !s.flows[j].ICMPError() || !stranger && !clear {
			continue
		}
		p, l4 := e.frame(in[s.at[j]])[packet.EthernetLen:], packet.IPv4Len
		if p[0]>>4 == 6 {
			l4 = s.l4[j].Offset
		}
		f, is := gateway.Answered(p, l4)
		if !is {
			continue
		}
		if stranger {
			s.enter[j] = s.gateway.MayEnter(&f, s.by[j])
		}
		if !clear {
			continue
		}
		if s.sas[j], s.leave[j] = s.gateway.Protect(&f); s.sas[j] != nil && s.sas[j].Mode() == esp.Transport {
			s.sas[j], s.leave[j] = nil, esp.OutStateModeError
		}
	}
}

// note writes down what the policies made of a packet. One that a device is to open has
// not met them, and one without an association will when there is one.
func (e *Engine) note(f *batch.Frame, r *batch.Result, t *Task, reason batch.Reason) {
	if t != nil && reason != ok {
		t.Kind = Settled
	}
	if t != nil && t.Kind == Open {
		return
	}
	if reason != ok {
		*r = batch.Result{Verdict: batch.Drop(reason)}
		if reason == batch.MTUExceeded {
			r.Len = uint16(e.ipsec.mtu)
			if f.Port&batch.Secured != 0 { // it is ESP by now
				r.Addr = batch.MayCut
			}
			return
		}
		if reason == batch.XfrmInNoStates {
			return
		}
	}
	f.Port |= batch.Secured
}

// maxNested is how many times a packet may be protected on arrival.
const maxNested = 4

// arrive takes a packet out of what it arrived in, and lists it for the policies unless
// it is dropped or a device's.
func (e *Engine) arrive(f *batch.Frame, i int, by *esp.SA, t *Task) (listed bool, reason batch.Reason) {
	depth := 0
	if by != nil {
		depth = 1
	}
	for ; ; depth++ {
		reason, l4 := e.look(*f)
		if reason == ok || reason == batch.TTLExpired { // our own packets end here
			s, err := e.arrivedBy(*f)
			if err != esp.OK {
				return false, reasonOf(err)
			}
			if s != nil {
				if depth == maxNested {
					return false, batch.XfrmInHdrError
				}
				if depth == 0 && e.fits(t, f, s) {
					return false, reasonOf(e.find(f, s, t))
				}
				if err := e.decapsulate(f, s); err != esp.OK {
					return false, reasonOf(err)
				}
				by = s
				continue
			}
		}
		if reason != ok || by == nil && e.partOfESP(*f) {
			return false, reason
		}
		e.ipsec.list(e.frame(*f), i, by, l4)
		return true, ok
	}
}

// list lists a valid packet.
func (s *ipsec) list(b []byte, i int, by *esp.SA, l4 packet.L4) {
	n, p := s.n, b[packet.EthernetLen:]
	s.at[n], s.by[n] = int32(i), by
	if p[0]>>4 == 4 {
		gateway.ReadIPv4(&s.flows[n], p)
	} else {
		gateway.ReadIPv6(&s.flows[n], p, l4)
		s.l4[n] = l4
	}
	s.n = n + 1
}

// look validates a packet; l4 is of an IPv6 one.
func (e *Engine) look(f batch.Frame) (reason batch.Reason, l4 packet.L4) {
	b := e.frame(f)
	if len(b) < packet.EthernetLen {
		return batch.TooShort, l4
	}
	switch (*packet.Ethernet)(b).Type() {
	case packet.EtherTypeIPv4:
		return validateIPv4(b[packet.EthernetLen:]), l4
	case packet.EtherTypeIPv6:
		reason = validateIPv6(b[packet.EthernetLen:], &l4)
		return reason, l4
	}
	return batch.EtherType, l4
}

// arrivedBy returns the association that a packet is protected by, nil if it is in clear
// or passes through to somebody else. It is an error if there is none for what is ours.
func (e *Engine) arrivedBy(f batch.Frame) (*esp.SA, esp.Error) {
	p := e.frame(f)[packet.EthernetLen:]
	spi, _, is := esp.Inbound(p)
	if !is {
		return nil, esp.OK
	}
	dst := esp.Destination(p)
	if s := e.ipsec.gateway.Inbound(spi, dst); s != nil {
		return s, esp.OK
	}
	if e.hop(dst).Kind() == fib.KindLocal {
		return nil, esp.InNoStates
	}
	return nil, esp.OK
}

// partOfESP reports whether a valid packet is a fragment for this host of ESP, or of UDP,
// in which it may be. It meets the policies when it is whole, and what was in it: it goes
// no further than to who collects it.
func (e *Engine) partOfESP(f batch.Frame) bool {
	const protoESP = 50
	p := e.frame(f)[packet.EthernetLen:]
	var proto packet.Protocol
	if p[0]>>4 == 4 {
		h := (*packet.IPv4)(p)
		if !h.Fragmented() {
			return false
		}
		proto = h.Protocol()
	} else {
		if (*packet.IPv6)(p).NextHeader() != packet.Fragment {
			return false
		}
		proto = packet.Protocol(p[packet.IPv6Len])
	}
	return (proto == protoESP || proto == packet.UDP) && e.hop(esp.Destination(p)).Kind() == fib.KindLocal
}

// hop returns the next hop to an address.
func (e *Engine) hop(dst netip.Addr) fib.NextHop {
	var id fib.ID
	if dst.Is4() {
		b := dst.As4()
		id = e.fib.IPv4.Lookup(binary.BigEndian.Uint32(b[:]))
	} else {
		id = e.fib.IPv6.Lookup(dst.As16())
	}
	return fib.NextHop(atomic.LoadUint64(&e.words.NextHops[id]))
}

// room returns the memory of a frame, and where in it its packet begins and how long it
// is, L2 padding included.
func (e *Engine) room(f batch.Frame) (buf []byte, at, n int) {
	start, size := f.Addr&^(umem.FrameSize-1), uint32(umem.FrameSize)
	if e.isLarge(f) {
		size = umem.LargeSize
	}
	return e.mem[start : start+size], int(f.Addr-start) + packet.EthernetLen, int(f.Len) - packet.EthernetLen
}

// isLarge reports whether a packet lies in a large frame. It begins in the first part of it.
func (e *Engine) isLarge(f batch.Frame) bool { return int(f.Addr) >= e.large }

// moved has a frame be the packet that now lies in its memory.
func (e *Engine) moved(f *batch.Frame, at, n int) {
	f.Addr = f.Addr&^(umem.FrameSize-1) + uint32(at-packet.EthernetLen)
	f.Len = uint16(packet.EthernetLen + n)
	b := e.frame(*f)
	kind := packet.EtherTypeIPv4
	if b[packet.EthernetLen]>>4 == 6 {
		kind = packet.EtherTypeIPv6
	}
	(*packet.Ethernet)(b).SetType(kind)
}

func (e *Engine) decapsulate(f *batch.Frame, s *esp.SA) esp.Error {
	buf, at, n := e.room(*f)
	at, n, err := s.Decapsulate(e.ipsec.worker, buf, at, n)
	if err == esp.OK {
		e.moved(f, at, n)
	}
	return err
}

// The smallest sizes that a source may be asked to send, in bytes (RFC 791, RFC 8200
// section 5).
const (
	minMTUIPv4 = 68
	minMTUIPv6 = 1280
)

// enterAndLeave does what the policies say of packet j of those listed: drops one that
// did not come as it should have, and protects it as it leaves if it has to be.
func (e *Engine) enterAndLeave(f *batch.Frame, j int, t *Task) batch.Reason {
	list := e.ipsec
	if list.enter[j] != esp.OK && f.Port&(batch.Own|batch.Cleared) == 0 {
		return reasonOf(list.enter[j])
	}
	if list.leave[j] != esp.OK {
		return reasonOf(list.leave[j])
	}
	s := list.sas[j]
	if s == nil {
		f.Port |= batch.Cleared
		return ok
	}
	f.Port &^= batch.Cleared // from before it waited
	p := e.frame(*f)[packet.EthernetLen:]
	ipv4 := p[0]>>4 == 4
	header, size := packet.IPv4Len, 0
	if ipv4 {
		size = (*packet.IPv4)(p).TotalLen()
	} else {
		header, size = packet.IPv6Len, packet.IPv6Len+(*packet.IPv6)(p).PayloadLen()
	}
	fits := s.InnerMTU(list.mtus[j], header)
	switch {
	case size <= fits:
	case ipv4 && p[6]&0x40 == 0 && e.cutAfter(s): // it is protected whole
	case !ipv4 && size <= minMTUIPv6: // so is what every way must carry (RFC 8200 section 5)
	case !ipv4:
		list.mtu = max(fits, minMTUIPv6)
		return batch.MTUExceeded
	case fits < minMTUIPv4:
		return batch.XfrmOutError
	default:
		f.Port |= batch.Cleared // fragments of it have entered, and are still to be protected
		list.mtu = fits
		return batch.MTUExceeded
	}
	repair := e.repair[f.Ingress()]
	if ipv4 {
		if repair {
			packet.CompleteIPv4(p[:size])
		}
		if s.Mode() == esp.Tunnel { // else what leaves still has the header
			(*packet.IPv4)(p).DecrementTTL()
		}
	} else {
		if l4 := &list.l4[j]; repair && !l4.Fragment {
			packet.CompleteIPv6(p[:size], l4.Proto, l4.Offset)
		}
		if s.Mode() == esp.Tunnel {
			(*packet.IPv6)(p).DecrementHopLimit()
		}
	}
	if e.ipsec.gateway.ClampMSS {
		clamp(p[:size], &list.l4[j], fits)
	}
	if size <= fits && e.fits(t, f, s) {
		return reasonOf(e.prepare(f, size, s, t))
	}
	buf, at, _ := e.room(*f)
	at, n, err := s.Encapsulate(e.ipsec.worker, buf, at, size)
	if err != esp.OK {
		return reasonOf(err)
	}
	e.moved(f, at, n)
	if n > list.mtus[j] {
		f.Port |= batch.Secured
		list.mtu = list.mtus[j]
		if p := e.frame(*f)[packet.EthernetLen:]; p[0]>>4 == 4 { // RFC 4213 section 3.2.2
			(*packet.IPv4)(p).ClearDF()
		}
		return batch.MTUExceeded
	}
	return ok
}

// cutAfter reports whether packets of an association that are too large, and may be cut,
// are cut when they are ESP: whole packets are all that transport mode takes.
func (e *Engine) cutAfter(s *esp.SA) bool {
	return s.MayBeCut() && (s.Mode() == esp.Transport || e.ipsec.gateway.FragmentAfter)
}

// clamp lowers what a TCP segment announces to what fits a packet of mtu bytes. l4 is of an
// IPv6 packet.
func clamp(p []byte, l4 *packet.L4, mtu int) {
	const tcpLen = 20
	at, is := packet.IPv4Len, false
	if p[0]>>4 == 4 {
		h := (*packet.IPv4)(p)
		is = h.Protocol() == packet.TCP && !h.Fragmented()
	} else {
		at, is = l4.Offset, l4.Proto == packet.TCP && !l4.Fragment
	}
	if room := mtu - at - tcpLen; is && room > 0 && room < 1<<16 {
		packet.ClampMSS(p[at:], uint16(room))
	}
}

// mtuOf returns what fits through the port by which packets of an association leave, and
// the path behind; it is large where no route leads there or the port is down, as the
// packets find out by themselves.
func (e *Engine) mtuOf(s *esp.SA) int {
	generation := e.fib.Generation()
	if mtu, is := s.MTU(generation); is {
		return mtu
	}
	mtu := 1<<16 - 1
	if hop := e.hop(s.Dst()); hop.Kind() == fib.KindForward {
		adjacency := hop.Index()
		if hop.Group() { // the paths of a group are taken to be alike
			adjacency = e.bucket(adjacency, 0)
		}
		adj := fib.Adjacency(atomic.LoadUint64(&e.words.Adjacencies[adjacency]))
		if m := fib.Port(atomic.LoadUint64(&e.words.Ports[adj.Port()])).MTU(); m != 0 {
			mtu = int(m)
		}
	}
	if m := s.PathMTU(); m != 0 {
		mtu = min(mtu, m)
	}
	s.SetMTU(generation, mtu)
	return mtu
}

// reasonOf is the drop that stands for an error, ok for none.
func reasonOf(err esp.Error) batch.Reason {
	if err == esp.OK {
		return ok
	}
	return batch.XfrmInHdrError + batch.Reason(err-esp.InHdrError)
}
