package gateway

import (
	"sync/atomic"

	"github.com/warproute/warproute/ipsec"
)

// tunnel is a tunnel as policies name it: its current outbound SA (see pages), and inbound all SAs
// that carry its number.
type tunnel struct {
	name      string
	out       []*ipsec.SA  // all outbound SAs, the newest last
	uses      int          // by SAs and active policies
	missed    atomic.Bool  // see miss
	transport atomic.Int32 // inbound SAs in transport mode
	past      [2]past      // by direction; see Traffic
}

// pages hold the current outbound SA of each tunnel, nil for none: all that a packet needs of its
// tunnel, eight to a cache line. Pages never move, so workers keep pointers to them.
type pages []*[pageSize]atomic.Pointer[ipsec.SA]

const pageSize = 512

func (p pages) of(tunnel uint32) *atomic.Pointer[ipsec.SA] {
	return &p[tunnel/pageSize][tunnel%pageSize]
}

// tunnels assigns numbers to tunnels. SAs and policies are compared by number. A number is reused
// only when no worker can still hold it, else a packet of one tunnel would pass as the other's.
type tunnels struct {
	all     []*tunnel // by number; nil: unused
	current pages
	numbers map[string]uint32
	idle    []uint32 // numbers possibly without uses
	free    []uint32
}

func (b *tunnels) get(n uint32) *tunnel {
	if int(n) >= len(b.all) {
		return nil
	}
	return b.all[n]
}

// leave ends a use.
func (b *tunnels) leave(n uint32) {
	if b.all[n].uses--; b.all[n].uses == 0 {
		b.idle = append(b.idle, n)
	}
}

// Tunnel returns the number of a tunnel, and creates it if the name is new.
func (g *Gateway) Tunnel(name string) uint32 {
	b := &g.tunnels
	if n, ok := b.numbers[name]; ok {
		return n
	}
	if b.numbers == nil {
		b.numbers = map[string]uint32{}
	}
	n := uint32(len(b.all))
	if last := len(b.free) - 1; last >= 0 {
		n, b.free = b.free[last], b.free[:last]
		b.all[n] = &tunnel{name: name}
	} else {
		b.all = append(b.all, &tunnel{name: name})
		if n%pageSize == 0 {
			b.current = append(b.current, new([pageSize]atomic.Pointer[ipsec.SA]))
		}
	}
	b.numbers[name] = n
	b.idle = append(b.idle, n) // it may stay unused
	return n
}

// TunnelName returns the name of a tunnel.
func (g *Gateway) TunnelName(n uint32) string { return g.tunnels.all[n].name }

// Retire removes tunnels that no SA and no active policy uses, and returns their numbers. They may
// be freed when no worker holds them. No number that Tunnel returned may still be unused then.
func (g *Gateway) Retire() (numbers []uint32) {
	b := &g.tunnels
	for _, n := range b.idle {
		x := b.all[n]
		if x == nil || x.uses > 0 {
			continue
		}
		if named, is := b.numbers[x.name]; is && named == n {
			delete(b.numbers, x.name)
			numbers = append(numbers, n)
		}
	}
	b.idle = b.idle[:0]
	return numbers
}

// Free makes numbers available to new tunnels. Every worker must have finished its batch since
// Retire.
func (g *Gateway) Free(numbers []uint32) {
	b := &g.tunnels
	for _, n := range numbers {
		b.all[n] = nil
		b.current.of(n).Store(nil)
	}
	b.free = append(b.free, numbers...)
}
