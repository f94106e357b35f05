package forward

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/oracle"
	"github.com/warproute/warproute/umem"
)

// Latency is the time from Submit to Done of chunks of one size, one at a time.
type Latency struct {
	Engine  string  `json:"engine"`
	Packets int     `json:"packets"`
	P50     float64 `json:"p50_us"`
	P99     float64 `json:"p99_us"`
	Max     float64 `json:"max_us"`
	// Percentiles are the latencies in µs that 1 %, 2 % ... 99 % of the chunks do not exceed.
	Percentiles []float64 `json:"percentiles_us"`
}

// MeasureLatency submits chunks of each size to the engine. Results and frames of the first chunk
// of each size are verified.
func MeasureLatency(o Options, sizes []int, chunks int) (all []Latency, err error) {
	rnd, routes, base, play, err := o.prepare(1 << 16)
	if err != nil {
		return nil, err
	}
	largest := slices.Max(sizes)
	o.Testbed.Workers, o.Testbed.GPUs, o.Testbed.MaxPackets, o.Testbed.Chunks = 1, 1, largest, 8 // one in flight
	mem, err := umem.New(2 * largest)
	if err != nil {
		return nil, err
	}
	newEngine, closeEngines, err := o.engines(base)()
	if err != nil {
		return nil, errors.Join(err, mem.Close())
	}
	defer func() { err = errors.Join(err, closeEngines(), mem.Close()) }()
	e, err := newEngine(0, mem.Bytes())
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
	truth := testbed.Answers(routes)
	c := batch.NewChunks(1, largest)[0]
	for _, n := range sizes {
		times, at := []float64{}, 0
		for k := range chunks {
			if at+n > len(play) {
				at = 0
			}
			in := play[at : at+n]
			at += n
			c.N = n
			for i, f := range in {
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
				if err := check(c, mem.Bytes(), in, truth); err != nil {
					return nil, fmt.Errorf("verify a chunk of %d: %w", n, err)
				}
			}
		}
		slices.Sort(times)
		l := Latency{Engine: e.Name(), Packets: n, P50: times[len(times)/2], P99: times[len(times)*99/100], Max: times[len(times)-1]}
		for percent := 1; percent < 100; percent++ {
			l.Percentiles = append(l.Percentiles, times[len(times)*percent/100])
		}
		all = append(all, l)
	}
	return all, nil
}

// check compares results and frames of a chunk with the expected ones.
func check(c *batch.Chunk, mem []byte, in [][]byte, truth *oracle.Ranges[int]) error {
	for i, f := range in {
		r := c.Out[i]
		if r.Verdict != batch.Forward(testbed.EgressPort) || int(r.Len()) != len(f) {
			return fmt.Errorf("packet %d: %v, %d bytes", i, r.Verdict, r.Len())
		}
		if got, want := mem[r.Addr():][:r.Len()], testbed.Forwarded(f, truth); !bytes.Equal(got, want) {
			return fmt.Errorf("packet %d:\n in   % x\n want % x\n got  % x", i, f, want, got)
		}
	}
	return nil
}
