package cpu

import (
	"sync/atomic"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

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
	p := e.frame(*f)[packet.EthernetLen:]
	if list.enter[j] != esp.OK && f.Port&(batch.Own|batch.Cleared) == 0 {
		if e.partOfTransport(p, j) {
			return batch.FragmentsMissing
		}
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
	if s.Mode() == esp.Transport && e.partOfHost(f, p, j) {
		return batch.FragmentsMissing
	}
	f.Port &^= batch.Cleared // from before it waited
	ipv4 := p[0]>>4 == 4
	size := packet.IPv6Len
	if ipv4 {
		size = (*packet.IPv4)(p).TotalLen()
	} else {
		size += (*packet.IPv6)(p).PayloadLen()
	}
	fits := s.InnerMTU(list.mtus[j], p)
	switch {
	case size <= fits:
	case ipv4 && p[6]&0x40 == 0 && (e.cutAfter(s) || list.flows[j].ICMPError()):
		// It is protected whole. Fragments of an error do not show the policies what it quotes.
	case !ipv4 && size <= minMTUIPv6: // so is what every way must carry (RFC 8200 section 5)
	case !ipv4 && f.Port&batch.Merged != 0 && s.Mode() == esp.Transport: // and what its source cut
	case !ipv4 && f.Port&batch.Merged == 0:
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

// mtuOf returns what fits through the route and the port by which packets of an association
// leave, and the path behind; it is large where no route leads there or the port is down, as the
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
			mtu = int(hop.Limit(m))
		}
	}
	if m := s.PathMTU(); m != 0 {
		mtu = min(mtu, m)
	}
	s.SetMTU(generation, mtu)
	return mtu
}
