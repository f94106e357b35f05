package ladder

import (
	"runtime"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/hist"
)

// Mixed traffic: large chunks as fast as possible, and a small one, the express chunk, at fixed times. Chunks
// finish in the order of submission, those of an engine with lanes only within the lane.

const (
	expressPackets  = 60
	expressInterval = 50 * time.Microsecond
	expressWindows  = 32 // chunks of different frames
)

// mixed is the result of a measurement with mixed traffic.
type mixed struct {
	packets int // of large chunks
	took    time.Duration
	latency hist.Snapshot // of express chunks, from the time at which they were due, in ns
}

// flight is a chunk in flight.
type flight struct {
	chunk   *batch.Chunk
	express bool
	due     time.Duration
}

// mixed measures large chunks of n packets and express chunks for a time, after a tenth of it as warm-up.
func (m *meter) mixed(n int, d time.Duration) (*mixed, error) {
	if err := m.mixedSegments(n, d/10, &mixed{}); err != nil {
		return nil, err
	}
	r := &mixed{}
	return r, m.mixedSegments(n, d, r)
}

// mixedSegments measures until the segments took a time. Between segments, frames are checked and written again.
func (m *meter) mixedSegments(n int, d time.Duration, r *mixed) error {
	for r.took < d {
		m.frames.reset()
		m.express.reset()
		runtime.GC()
		large, express := m.mixedSegment(n, d-r.took, r)
		if err := m.e.failed(); err != nil {
			return err
		}
		if err := m.frames.checkUses(n, large); err != nil {
			return err
		}
		if err := m.express.checkUses(expressPackets, express); err != nil {
			return err
		}
	}
	return nil
}

// mixedSegment measures for a time, or until the frames have been used as often as possible. It returns the
// numbers of chunks. One slot is free of large chunks.
func (m *meter) mixedSegment(n int, d time.Duration, r *mixed) (large, express int) {
	windows := m.frames.windows(n)
	free := append([]*batch.Chunk(nil), m.chunks...)
	var queues [2][]flight // by lane, oldest first
	for i := range queues {
		queues[i] = make([]flight, 0, len(m.chunks))
	}
	start := batch.Clock()
	worked := true
	for due, now, last := start, start, start; ; last, now = now, batch.Clock() {
		if !worked {
			m.idle += now - last
		}
		worked = false
		for i, q := range queues {
			if len(q) == 0 || !m.e.Done(q[0].chunk) {
				continue
			}
			if q[0].express {
				r.latency.Record(uint64(batch.Clock()-q[0].due), 1)
			}
			free = append(free, q[0].chunk)
			queues[i] = q[:copy(q, q[1:])]
			worked = true
		}
		more := now-start < d && large < windows*maxUses && express < expressWindows*maxUses
		if !more && len(free) == len(m.chunks) {
			r.took += now - start
			r.packets += large * n
			return large, express
		}
		f := flight{express: now >= due, due: due}
		if !more || len(free) == 0 || len(free) == 1 && !f.express {
			continue
		}
		f.chunk, free = free[len(free)-1], free[:len(free)-1]
		f.chunk.Lane = 0
		if f.express {
			m.express.fill(f.chunk, express%expressWindows, expressPackets)
			express++
			due += expressInterval
		} else {
			m.frames.fill(f.chunk, large%windows, n)
			large++
			if m.e.lanes {
				f.chunk.Lane = 1
			}
		}
		f.chunk.Submitted, f.chunk.Idle = now, m.idle
		worked = true
		queues[f.chunk.Lane] = append(queues[f.chunk.Lane], f)
		m.e.Submit(f.chunk)
	}
}
