package ipsec

import (
	"errors"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/bench/bed"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/packet"
)

// alone is an engine that seals or opens every packet by Go's crypto packages where it
// lies, with the key of its tunnel, and does nothing else for it: it knows what packets
// it is given in which order. What it seals is no packet, but as long as one.
type alone struct {
	*traffic
	mem    []byte
	keys   []*library // of the packets of the worker's ring, in turn
	next   int
	forged *int
}

// newAlone has libraries of its own, as workers may share tunnels.
func (t *traffic) newAlone(mem []byte, r ring, forged *int) (*alone, error) {
	a := &alone{traffic: t, mem: mem, forged: forged}
	own := map[*tunnel]*library{}
	for _, n := range r.tunnels {
		if own[n] == nil {
			l, err := newLibrary(t.suite, n.keys)
			if err != nil {
				return nil, err
			}
			own[n] = l
		}
		a.keys = append(a.keys, own[n])
	}
	return a, nil
}

// aloneEngines makes such engines for the rings, and fails in the end if one of them
// refused a packet.
func (t *traffic) aloneEngines(rings []ring) bed.Maker {
	return func() (func(int, []byte) (dataplane.Engine, error), func() error, error) {
		forged := make([]int, len(rings))
		return func(worker int, mem []byte) (dataplane.Engine, error) {
				return t.newAlone(mem, rings[worker], &forged[worker])
			}, func() error {
				for _, n := range forged {
					if n > 0 {
						return errors.New("time Go's crypto packages: they refuse what they have sealed")
					}
				}
				return nil
			}, nil
	}
}

func (a *alone) Name() string { return "crypto" }

// Quiesced is true: no packet is ever lost.
func (*alone) Quiesced() bool { return true }

func (a *alone) Done(*batch.Chunk) bool { return true }

func (a *alone) Submit(c *batch.Chunk) {
	for i, f := range c.In[:c.N] {
		l := a.keys[a.next]
		if a.next++; a.next == len(a.keys) {
			a.next = 0
		}
		at, n := int(f.Addr)+packet.EthernetLen, int(f.Len)-packet.EthernetLen
		if a.Direction == in {
			sealed := a.mem[at+a.ipLen() : at+n]
			if _, ok := l.open(sealed[headerLen+l.IVLen:], sealed); !ok {
				*a.forged++
			}
		} else {
			l.seal(a.mem[at-headerLen-l.IVLen : at+n+l.trailerLen(n)+l.ICVLen])
		}
		c.Out[i] = batch.Result{Addr: f.Addr, Len: f.Len, Verdict: batch.Forward(bed.EgressPort)}
	}
}

// timeHot returns how many nanoseconds Go's crypto packages take for a packet that
// is in the first cache, with one key, where worker 0 runs.
func (t *traffic) timeHot() (float64, error) {
	cpus, err := affinity.CPUs()
	if err != nil {
		return 0, err
	}
	restore, err := affinity.Pin(cpus[len(cpus)-1])
	if err != nil {
		return 0, err
	}
	defer restore()
	l := t.tunnels[0].library
	var sealed [][]byte
	for _, n := range t.Sizes {
		p := make([]byte, headerLen+t.suite.IVLen+n+l.trailerLen(n)+t.suite.ICVLen)
		l.seal(p)
		sealed = append(sealed, p)
	}
	scratch := make([]byte, mtu)
	count, start := 0, time.Now()
	for time.Since(start) < t.Duration/4 {
		for range 64 {
			for _, p := range sealed {
				if t.Direction != in {
					l.seal(p)
				} else if _, ok := l.open(scratch, p); !ok {
					return 0, errors.New("time Go's crypto packages: they refuse what they have sealed")
				}
				count++
			}
		}
	}
	return float64(time.Since(start).Nanoseconds()) / float64(count), nil
}
