package testbed

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
)

// timeout limits a verification.
const timeout = time.Minute

// Verify plays the frames of each worker a number of times, and returns the frames that each worker
// transmits. It fails unless every frame is transmitted or dropped. Config.Prepared must be 0, or as many
// as the frames that a worker receives.
func (b *Testbed) Verify(play [][][]byte, times int) (sent [][][]byte, stats *dataplane.Stats, err error) {
	sent, total := make([][][]byte, len(play)), uint64(0)
	for w := range play {
		b.Out[w].Collect(func(f []byte) { sent[w] = append(sent[w], bytes.Clone(f)) })
		b.In[w].Play(play[w], times*len(play[w]))
		total += uint64(times * len(play[w]))
	}
	if err := b.Start(); err != nil {
		return nil, nil, err
	}
	done := func() uint64 {
		stats = b.Router.Stats()
		return stats.Ports[EgressPort].TxPackets + stats.Ports[0].Dropped()
	}
	for start := time.Now(); done() < total && time.Since(start) < timeout; {
		time.Sleep(time.Millisecond)
	}
	b.Stop()
	if n := done(); n != total {
		return nil, nil, fmt.Errorf("%d of %d packets were transmitted or dropped within %v%s", n, total, timeout, dropped(stats))
	}
	return sent, stats, nil
}

// dropped lists the drops of received packets, and the packets that the router originated.
func dropped(stats *dataplane.Stats) (list string) {
	for reason, n := range stats.Ports[0].Drops {
		if n > 0 {
			list += fmt.Sprintf("; %d dropped: %v", n, batch.Reason(reason))
		}
	}
	if stats.Originated > 0 {
		list += fmt.Sprintf("; %d originated", stats.Originated)
	}
	return list
}

// Round is the result of one timed run.
type Round struct {
	Engine   string
	Packets  uint64
	Seconds  float64
	Bytes    float64            // per packet, if the caller sets it
	Stages   map[string]float64 // ns per packet
	CPU      float64            // ns per packet, of the workers that packets are offered to, without idle polls
	P50, P99 float64            // latency of a chunk in µs
}

// NewRound returns the traffic between two moments, of which packets were offered to the first offered workers.
func NewRound(before, after *dataplane.Stats, elapsed time.Duration, offered int) Round {
	r := Round{
		Engine: after.Engine, Seconds: elapsed.Seconds(), Stages: map[string]float64{},
		Packets: after.Ports[EgressPort].TxPackets - before.Ports[EgressPort].TxPackets,
	}
	for s := range dataplane.Stage(dataplane.NumStages) {
		after.Stages[s].Sub(&before.Stages[s])
		r.Stages[s.String()] = float64(after.Stages[s].Sum) / float64(r.Packets)
	}
	r.CPU = float64(busyTime(before, after, elapsed, offered)) / float64(r.Packets)
	total := &after.Stages[dataplane.StageTotal]
	r.P50, r.P99 = float64(total.Quantile(0.5))/1e3, float64(total.Quantile(0.99))/1e3
	return r
}

// busyTime returns the time of the first workers between two moments, without idle polls. A worker that gets no packets sleeps, and its
// sleep counts as idle when it ends, so it must not be one of them. An idle poll that Linux paused before the first moment is longer than its part.
func busyTime(before, after *dataplane.Stats, elapsed time.Duration, workers int) (busy time.Duration) {
	for w := range workers {
		idle := after.Loads[w].Elapsed - after.Loads[w].Busy - (before.Loads[w].Elapsed - before.Loads[w].Busy)
		busy += max(0, elapsed-idle)
	}
	return busy
}

// Mpps returns the rate.
func (r Round) Mpps() float64 { return float64(r.Packets) / r.Seconds / 1e6 }

// Median returns the round with the median rate.
func Median(rounds []Round) Round {
	rounds = slices.SortedFunc(slices.Values(rounds), func(a, b Round) int { return cmp.Compare(a.Mpps(), b.Mpps()) })
	return rounds[len(rounds)/2]
}
