package ipsec

import (
	"errors"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/packet"
)

// cryptoEngine only encrypts or decrypts packets in place with Go's crypto packages and the keys of
// their tunnels. It relies on the order of its input, and writes no valid headers.
type cryptoEngine struct {
	*traffic
	mem    []byte
	keys   []*library // by packet of the worker's ring
	next   int
	forged *int
}

// newCryptoEngine returns the engine of a worker, with its own libraries, because workers can share
// tunnels.
func (t *traffic) newCryptoEngine(mem []byte, r ring, forged *int) (*cryptoEngine, error) {
	a := &cryptoEngine{traffic: t, mem: mem, forged: forged}
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

// libraryEngines returns crypto engines for the rings. Closing them fails if one refused a packet.
func (t *traffic) libraryEngines(rings []ring) testbed.Engines {
	return func() (func(int, []byte) (dataplane.Engine, error), func() error, error) {
		forged := make([]int, len(rings))
		return func(worker int, mem []byte) (dataplane.Engine, error) {
				return t.newCryptoEngine(mem, rings[worker], &forged[worker])
			}, func() error {
				for _, n := range forged {
					if n > 0 {
						return errors.New("time Go's crypto packages: packet refused as a forgery")
					}
				}
				return nil
			}, nil
	}
}

func (a *cryptoEngine) Name() string { return "crypto" }

// Quiesced is always true.
func (*cryptoEngine) Quiesced() bool { return true }

func (a *cryptoEngine) Done(*batch.Chunk) bool { return true }

func (a *cryptoEngine) Submit(c *batch.Chunk) {
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
		c.Out[i] = batch.ForwardTo(testbed.EgressPort, f.Addr, f.Len)
	}
}

// timeHot returns the time in ns that Go's crypto packages take for a packet in the L1 cache, with one
// key, on the core of worker 0.
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
					return 0, errors.New("time Go's crypto packages: packet refused as a forgery")
				}
				count++
			}
		}
	}
	return float64(time.Since(start).Nanoseconds()) / float64(count), nil
}
