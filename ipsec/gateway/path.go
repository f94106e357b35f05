package gateway

import (
	"net/netip"
	"sync"
	"time"

	"github.com/warproute/warproute/ipsec"
)

// TooBig is what a router on the path of a tunnel says: a packet did not fit, and is
// quoted. Anybody can send such a thing.
type TooBig struct {
	Src, Dst netip.Addr  // of the packet
	From     netip.Addr  // the source of the error
	Encap    ipsec.Encap // UDP ports of the packet; zero: it is not in UDP
	SPI      uint32
	Sequence uint32 // its lower half
	ID       uint16 // IPv4 identification
	DF       bool   // IPv4: it must not be fragmented
	Size     int    // of the packet in bytes, IP header included
	MTU      int    // what would fit, in the same; 0: the router does not say (RFC 1191 section 5)
}

// Bounds of what is believed of a path. No path of today is narrower, and what is told to
// be would have us cut everything to pieces (RFC 8201 section 4, RFC 4821 section 7.7).
const (
	minPathIPv4 = 576
	minPathIPv6 = 1280
)

// pathMemory is for how long a path counts as narrow; then it is tried again (RFC 1191
// section 6.3, RFC 8201 section 5.3).
const pathMemory = 10 * time.Minute

// Times of errors. A quoted packet may have left up to two ticks before, of which one takes no less than
// markEvery: an error takes one round trip. A path changes once in changeEvery.
const (
	markEvery   = 900 * time.Millisecond
	changeEvery = time.Second
)

// paths are the ways to other gateways, as far as they are known to be narrower than the
// ports that lead there. They have a lock of their own, because routers speak at any time.
type paths struct {
	mu     sync.Mutex
	sas    map[pathSPI]*outgoing
	narrow map[path]narrow
}

// outgoing is an outbound SA of a tunnel, and its last sequence numbers at two times: packets
// after the first of them are recent.
type outgoing struct {
	*ipsec.SA
	before, last mark
}

type mark struct {
	seq uint64
	at  time.Duration
}

// tick moves the marks when the last is old enough.
func (o *outgoing) tick(now time.Duration) {
	if now-o.last.at >= markEvery {
		o.before, o.last = o.last, mark{o.Sequence(), now}
	}
}

// sent reports whether the SA may have sent the quoted packet lately. In a tunnel's IPv4 header
// the identification is the sequence number's; behind a NAT it may be another's.
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

// add has an outbound association know what its path is like. In transport mode the
// packets are not ours: routers tell their sources.
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

// Learn has the SAs of a path protect no more than fits it, if an error is to be believed: it quotes a
// packet that one of them may have sent in the last second or two, and it is plausible (RFC 4301 section
// 8.2.2, RFC 5927 section 7). It returns the MTU in bytes that the path has now, and whether it
// changed; the generation of routes is to be moved then. now is the time since an arbitrary start.
// Any goroutine may call it.
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

// TickPaths notes which packets are recent, and forgets what was learned of paths too long ago; it
// reports whether there was any of that. It is to be called every second; the rest is as with Learn.
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
