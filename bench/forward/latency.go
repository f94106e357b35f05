package forward

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/bench/bed"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/oracle"
	"github.com/warproute/warproute/umem"
)

// Latency is how long an engine has a chunk, from Submit to Done, in microseconds:
// one chunk at a time, its frames written anew before.
type Latency struct {
	Engine  string  `json:"engine"`
	Mode    string  `json:"mode,omitempty"`
	Packets int     `json:"packets"`
	P50     float64 `json:"p50_us"`
	P99     float64 `json:"p99_us"`
	Max     float64 `json:"max_us"`
}

// MeasureLatency submits so many chunks of each size to the engine that o names;
// every result and every frame of the first of each size is verified.
func MeasureLatency(o Options, sizes []int, chunks int) (all []Latency, err error) {
	rnd := rand.New(rand.NewPCG(o.Seed, 0))
	routes, err := bed.Routes(rnd, o.Table, o.IPv6, o.Routes, o.Seed)
	if err != nil {
		return nil, err
	}
	base, err := bed.NewFIB(routes, 1500)
	if err != nil {
		return nil, err
	}
	largest := slices.Max(sizes)
	o.Workers, o.GPUs, o.MaxPackets, o.Chunks = 1, 1, largest, 8 // of which it has one at a time
	mem, err := umem.New(2 * largest)
	if err != nil {
		return nil, err
	}
	slab, err := batch.NewSlab(1, largest)
	if err != nil {
		return nil, err
	}
	make, closeEngines, err := o.engine(base)()
	if err != nil {
		return nil, errors.Join(err, mem.Close(), slab.Close())
	}
	defer func() { err = errors.Join(err, closeEngines(), mem.Close(), slab.Close()) }()
	e, err := make(0, mem.Bytes())
	if err != nil {
		return nil, err
	}
	cpus, err := affinity.CPUs()
	if err != nil {
		return nil, err
	}
	restore, err := affinity.Pin(cpus[len(cpus)-1])
	if err != nil {
		return nil, err
	}
	defer restore()
	play, truth := frames(rnd, routes, 1<<16, o.Size), bed.Answers(routes)
	c := slab.Chunks[0]
	for _, n := range sizes {
		times, at := []float64{}, 0
		for k := range chunks {
			if at+n > len(play) {
				at = 0
			}
			batchOf := play[at : at+n]
			at += n
			c.N = n
			for i, f := range batchOf {
				addr := uint32(rnd.IntN(2))*umem.FrameSize + uint32(2*i)*umem.FrameSize + umem.DataOffset
				copy(mem.Bytes()[addr:], f)
				c.In[i] = batch.Frame{Addr: addr, Len: uint16(len(f))}
			}
			clear(c.Out[:n])
			c.Submitted = batch.Clock()
			start := time.Now()
			e.Submit(c)
			for !e.Done(c) {
			}
			times = append(times, float64(time.Since(start).Nanoseconds())/1e3)
			if k == 0 {
				if err := right(c, mem.Bytes(), batchOf, truth); err != nil {
					return nil, fmt.Errorf("verify a chunk of %d: %w", n, err)
				}
			}
		}
		slices.Sort(times)
		all = append(all, Latency{Engine: e.Name(), Mode: string(o.Mode), Packets: n, P50: times[len(times)/2], P99: times[len(times)*99/100], Max: times[len(times)-1]})
	}
	return all, nil
}

// right compares what an engine made of a chunk with what a router makes of it.
func right(c *batch.Chunk, mem []byte, in [][]byte, truth *oracle.Ranges[int]) error {
	for i, f := range in {
		r := c.Out[i]
		if r.Verdict != batch.Forward(bed.EgressPort) || int(r.Len) != len(f) {
			return fmt.Errorf("packet %d: %v, %d bytes", i, r.Verdict, r.Len)
		}
		if got, want := mem[r.Addr:][:r.Len], expect(f, truth); !bytes.Equal(got, want) {
			return fmt.Errorf("packet %d:\n in   % x\n want % x\n got  % x", i, f, want, got)
		}
	}
	return nil
}
