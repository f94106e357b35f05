package gateway

import (
	"net/netip"
	"sync"
	"time"

	"github.com/warproute/warproute/ipsec"
)

// TooBig is an ICMP error of a router on the path of a tunnel: a packet did not fit, and is quoted.
// Anybody can forge one.
type TooBig struct {
	Src, Dst netip.Addr  // of the quoted packet
	From     netip.Addr  // source of the error
	Encap    ipsec.Encap // UDP ports of the quoted packet; zero without UDP
	SPI      uint32
	Sequence uint32 // lower half of the sequence number
	ID       uint16 // IPv4 identification
	DF       bool   // IPv4: don't fragment
	Size     int    // bytes of the quoted packet, IP header included
	MTU      int    // size that fits, in the same unit; 0: not reported (RFC 1191 section 5)
}

// Bounds of credible path MTUs. A smaller one would fragment everything into tiny pieces (RFC 8201
// section 4, RFC 4821 section 7.7).
const (
	minPathIPv4 = 576
	minPathIPv6 = 1280
)

// pathMemory is the time after which a learned MTU is forgotten and the path is tried again (RFC
// 1191 section 6.3, RFC 8201 section 5.3).
const pathMemory = 10 * time.Minute

// Ages of credible errors. A quoted packet may be up to two marks old, and marks are at least markEvery
// apart; an error takes one round trip. A path's MTU changes at most once per changeEvery.
const (
	markEvery   = 900 * time.Millisecond
	changeEvery = time.Second
)

// paths are the paths to other gateways whose MTU is known to be smaller than the port's. They have a
// lock of their own, since ICMP errors arrive at any time.
type paths struct {
	mu     sync.Mutex
	sas    map[pathSPI]*outgoing
	narrow map[path]narrow
}

// outgoing is an outbound SA of a tunnel with its last sequence numbers at two times. Packets after
// the first of them are recent.
type outgoing struct {
	*ipsec.SA
	before, last mark
}

type mark struct {
	seq uint64
	at  time.Duration
}

// tick moves the marks if the last one is old enough.
func (o *outgoing) tick(now time.Duration) {
	if now-o.last.at >= markEvery {
		o.before, o.last = o.last, mark{o.Sequence(), now}
	}
}

// sent reports whether the SA may have sent the quoted packet recently. The identification of a
// tunnel's IPv4 header is the sequence number's lower half; a NAT may change it.
func (o *outgoing) sent(t *TooBig) bool {
	c := o.Config()
	switch {
	case (c.Encap != nil) != (t.Encap != ipsec.Encap{}), c.Encap != nil && *c.Encap != t.Encap:
		return false
	case t.Dst.Is4() && (!t.DF || c.Encap == nil && t.ID != uint16(t.Sequence)):
		return false
	}
	_, ok := o.Sent(t.Sequence, o.before.seq)
	return ok
}

type path struct{ src, dst netip.Addr }

type pathSPI struct {
	path
	spi uint32
}

type narrow struct {
	mtu          int
	since, until time.Duration
}

func pathOf(s *ipsec.SA) pathSPI {
	c := s.Config()
	return pathSPI{path{c.Src, c.Dst}, c.SPI}
}

// add gives an outbound SA the known MTU of its path. In transport mode the packets are the hosts',
// and routers report to them.
func (p *paths) add(s *ipsec.SA) {
	if s.Mode() != ipsec.Tunnel {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sas == nil {
		p.sas, p.narrow = map[pathSPI]*outgoing{}, map[path]narrow{}
	}
	id := pathOf(s)
	if o := p.sas[id]; o == nil || o.SA != s {
		start := mark{seq: s.Sequence()}
		p.sas[id] = &outgoing{s, start, start}
	}
	s.SetPathMTU(p.narrow[id.path].mtu)
}

func (p *paths) remove(s *ipsec.SA) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := pathOf(s)
	if o := p.sas[id]; o != nil && o.SA == s {
		delete(p.sas, id)
	}
}

// Learn lowers the path MTU of SAs if an error is credible: it quotes a packet that one of them may
// have sent in the last second or two (RFC 4301 section 8.2.2, RFC 5927 section 7). It returns the
// path MTU in bytes, and whether it changed; the caller then advances the generation of routes. now is
// the time since an arbitrary start. It is safe for concurrent use.
func (g *Gateway) Learn(t TooBig, now time.Duration) (mtu int, changed bool) {
	mtu = t.MTU
	switch {
	case t.Dst.Is4():
		mtu = max(mtu, minPathIPv4)
	case mtu < minPathIPv6:
		return 0, false
	}
	p := &g.paths
	p.mu.Lock()
	defer p.mu.Unlock()
	id := pathSPI{path{t.Src, t.Dst}, t.SPI}
	s := p.sas[id]
	if s == nil || mtu >= t.Size || !s.sent(&t) {
		return 0, false
	}
	if old, is := p.narrow[id.path]; is && (mtu >= old.mtu || now-old.since < changeEvery) {
		return old.mtu, false
	}
	p.narrow[id.path] = narrow{mtu, now, now + pathMemory}
	p.set(id.path, mtu)
	return mtu, true
}

// TickPaths records the recent sequence numbers, and forgets old path MTUs; it reports whether it
// forgot any. It is called every second. now is as for Learn.
func (g *Gateway) TickPaths(now time.Duration) (changed bool) {
	p := &g.paths
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.sas {
		o.tick(now)
	}
	for at, n := range p.narrow {
		if now >= n.until {
			delete(p.narrow, at)
			p.set(at, 0)
			changed = true
		}
	}
	return changed
}

func (p *paths) set(at path, mtu int) {
	for id, s := range p.sas {
		if id.path == at {
			s.SetPathMTU(mtu)
		}
	}
}
