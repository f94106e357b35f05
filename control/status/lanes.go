package status

import (
	"io"
	"time"
)

// Lane is the state of a lane: an element of `show lanes`. Latencies are of chunks, from the first packet received to
// the kernel notified, exact to 1 %.
type Lane struct {
	Name     string `json:"name"`           // name of the lane; "all" for the only one
	Deadline int64  `json:"deadline_ns"`    // deadline of packets, ns; 0: none
	Share    int    `json:"share_percent"`  // percent of each GPU that serves the lane first
	Packets  uint64 `json:"packets"`        // processed packets
	Chunks   uint64 `json:"chunks"`         // processed chunks
	Missed   uint64 `json:"missed_packets"` // packets of chunks that were sent after the deadline
	Queued   int64  `json:"queued_packets"` // received packets that no chunk has yet
	P50      uint64 `json:"p50_ns"`         // median latency of chunks, ns
	P99      uint64 `json:"p99_ns"`         // 99th percentile, ns
	P999     uint64 `json:"p999_ns"`        // 99.9th percentile, ns
}

// Lanes lists the lanes in their order.
func Lanes(s *Snapshot) []Lane {
	all := make([]Lane, len(s.Stats.Lanes))
	for i := range all {
		l := &s.Stats.Lanes[i]
		all[i] = Lane{
			Name: l.Name, Deadline: l.Deadline.Nanoseconds(), Share: l.Share, Packets: l.Packets, Chunks: l.Chunks, Missed: l.Missed, Queued: l.Queued,
			P50: l.Total.Quantile(0.5), P99: l.Total.Quantile(0.99), P999: l.Total.Quantile(0.999),
		}
	}
	return all
}

// WriteLanes writes one row per lane.
func WriteLanes(w io.Writer, all []Lane) error {
	t := newTable(w, "LANE", "PACKETS", "CHUNKS", "QUEUED", "DEADLINE", "MISSED", "P50", "P99", "P99.9")
	for _, l := range all {
		deadline := "none"
		if l.Deadline > 0 {
			deadline = time.Duration(l.Deadline).String()
		}
		t.row(l.Name, l.Packets, l.Chunks, l.Queued, deadline, l.Missed, Nanoseconds(l.P50), Nanoseconds(l.P99), Nanoseconds(l.P999))
	}
	return t.flush()
}
