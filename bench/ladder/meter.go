package ladder

import (
	"runtime"
	"slices"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/hist"
)

// meter measures an engine.
type meter struct {
	*bench
	e      *engine
	chunks []*batch.Chunk
	due    []time.Duration // by chunk in flight
	idle   time.Duration   // of all iterations without work
}

func newMeter(b *bench, e *engine, size int) *meter {
	return &meter{bench: b, e: e, chunks: batch.NewChunks(b.InFlight, size), due: make([]time.Duration, b.InFlight)}
}

// sample measures chunks of n packets. The reference is the rate in packets per second that the load is a share
// of; the first rung sets it.
func (m *meter) sample(n int, reference *float64, first bool) (s sample, err error) {
	one, err := m.run(n, 1, 0, m.Duration)
	if err != nil {
		return s, err
	}
	all, err := m.run(n, m.InFlight, 0, m.Duration)
	if err != nil {
		return s, err
	}
	s.one, s.mpps = mpps(one.packets, one.took), mpps(all.packets, all.took)
	s.p50, s.p99 = quantiles(&one.latency)
	s.oneByCPU, s.byCPU = one.shareOfCPU(), all.shareOfCPU()
	if first {
		*reference = s.mpps * 1e6
	}
	interval := time.Duration(float64(n) / (m.Load * *reference) * 1e9)
	load, err := m.run(n, m.InFlight, max(interval, 1), m.Duration)
	if err != nil {
		return s, err
	}
	s.loadP50, s.loadP99 = quantiles(&load.latency)
	mixed, err := m.mixed(n, m.Duration)
	if err != nil {
		return s, err
	}
	s.mixed = mpps(mixed.packets, mixed.took)
	s.expressP50, s.expressP99 = quantiles(&mixed.latency)
	if m.e.kernels != nil {
		s.kernel, err = m.kernelTime(n)
	}
	return s, err
}

// run is the result of a measurement.
type run struct {
	packets int
	took    time.Duration
	latency hist.Snapshot // of chunks, in ns

	chunks int
	byCPU  int // chunks that the CPU engine executed
}

// shareOfCPU returns the share of the chunks that the CPU engine executed.
func (r *run) shareOfCPU() float64 { return float64(r.byCPU) / float64(r.chunks) }

// run measures chunks of n packets for a time, after a tenth of it as warm-up, with up to inFlight chunks in
// flight. With an interval, chunks are due at these times, whether or not the engine keeps up, and the latency
// counts from there.
func (m *meter) run(n, inFlight int, interval, d time.Duration) (*run, error) {
	if err := m.segments(n, inFlight, interval, d/10, &run{}); err != nil {
		return nil, err
	}
	r := &run{}
	return r, m.segments(n, inFlight, interval, d, r)
}

// segments measures until the segments took a time. Between segments, frames are checked and written again.
func (m *meter) segments(n, inFlight int, interval, d time.Duration, r *run) error {
	for r.took < d {
		m.frames.reset()
		runtime.GC()
		before := m.e.chunksOnGPU()
		used := m.segment(n, inFlight, interval, d-r.took, r)
		r.chunks += used
		if m.e.byGPU != nil {
			r.byCPU += used - int(m.e.chunksOnGPU()-before)
		}
		if err := m.e.failed(); err != nil {
			return err
		}
		if err := m.frames.checkUses(n, used); err != nil {
			return err
		}
	}
	return nil
}

// segment measures for a time, or until the frames have been used as often as possible. It returns the number of
// chunks.
func (m *meter) segment(n, inFlight int, interval, d time.Duration, r *run) (used int) {
	windows := m.frames.windows(n)
	finished, most := 0, windows*maxUses
	start := batch.Clock()
	due, now := start, start
	for submitted := true; ; {
		done, last := finished < used && m.e.Done(m.chunks[finished%inFlight]), now
		now = batch.Clock()
		if done {
			r.latency.Record(uint64(now-m.due[finished%inFlight]), 1)
			finished++
		} else if !submitted {
			m.idle += now - last
		}
		submitted = false
		if more := used < most && now-start < d; !more {
			if finished == used {
				break
			}
			continue
		}
		if used-finished == inFlight || interval > 0 && now < due {
			continue
		}
		c := m.chunks[used%inFlight]
		m.frames.fill(c, used%windows, n)
		if interval == 0 {
			due = batch.Clock()
		}
		m.due[used%inFlight] = due
		c.Submitted = batch.Clock()
		c.Idle = m.idle
		m.e.Submit(c)
		submitted = true
		used++
		due += interval
	}
	r.took += now - start
	r.packets += used * n
	return used
}

// kernelTime returns the median time of the kernels of a chunk of n packets, in µs.
func (m *meter) kernelTime(n int) (us float64, err error) {
	m.frames.reset()
	var times []time.Duration
	for range 100 {
		m.frames.fill(m.chunks[0], 0, n)
		d, err := m.e.kernels(m.chunks[0])
		if err != nil {
			return 0, err
		}
		times = append(times, d)
	}
	slices.Sort(times)
	return float64(times[len(times)/2]) / 1e3, nil
}
