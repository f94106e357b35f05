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
	Src, Dst netip.Addr // of the packet
	SPI      uint32
	Sequence uint32 // its lower half
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

// paths are the ways to other gateways, as far as they are known to be narrower than the
// ports that lead there. They have a lock of their own, because routers speak at any time.
type paths struct {
	mu     sync.Mutex
	sas    map[pathSPI]*ipsec.SA // of tunnels, outbound
	narrow map[path]narrow
}

type path struct{ src, dst netip.Addr }

type pathSPI struct {
	path
	spi uint32
}

type narrow struct {
	mtu   int
	until time.Duration
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
		p.sas, p.narrow = map[pathSPI]*ipsec.SA{}, map[path]narrow{}
	}
	id := pathOf(s)
	p.sas[id] = s
	s.SetPathMTU(p.narrow[id.path].mtu)
}

func (p *paths) remove(s *ipsec.SA) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id := pathOf(s); p.sas[id] == s {
		delete(p.sas, id)
	}
}

// Learn has the associations of a path protect no more than fits it, if a router is to be
// believed: it quotes a packet that may have left by one of them, and what it says is
// plausible (RFC 4301 section 8.2). It reports whether anything changed; the generation of
// routes is to be moved then. now is the time since an arbitrary start. Any goroutine may
// call it.
func (g *Gateway) Learn(t TooBig, now time.Duration) bool {
	mtu := t.MTU
	switch {
	case t.Dst.Is4():
		mtu = max(mtu, minPathIPv4)
	case mtu < minPathIPv6:
		return false
	}
	p := &g.paths
	p.mu.Lock()
	defer p.mu.Unlock()
	id := pathSPI{path{t.Src, t.Dst}, t.SPI}
	s := p.sas[id]
	if s == nil || !s.Used(t.Sequence) || mtu >= t.Size {
		return false
	}
	if old, is := p.narrow[id.path]; is && mtu >= old.mtu {
		return false
	}
	p.narrow[id.path] = narrow{mtu, now + pathMemory}
	p.set(id.path, mtu)
	return true
}

// Widen forgets what was learned of paths too long ago, and reports whether there was any;
// the rest is as with Learn.
func (g *Gateway) Widen(now time.Duration) (changed bool) {
	p := &g.paths
	p.mu.Lock()
	defer p.mu.Unlock()
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
