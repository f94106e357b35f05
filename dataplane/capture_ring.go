package dataplane

import (
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/batch"
)

// captureRing passes records from one worker to the reader of a capture.
type captureRing struct {
	capture *Capture
	worker  int
	records []Record
	data    []byte // Snap bytes per record, twice as many for Decided
	next    uint64 // record that the worker writes next; records below head are published
	counts  []captureCounts
	traces  traces

	head atomic.Uint64 // published records, written by the worker
	_    [56]byte
	tail atomic.Uint64 // records read, written by the reader
	_    [56]byte
}

type captureCounts struct{ captured, missed atomic.Uint64 }

func newCaptureRing(t *Capture, worker int) *captureRing {
	r := &captureRing{capture: t, worker: worker, records: make([]Record, t.Room), counts: make([]captureCounts, batch.MaxPorts)}
	r.data = make([]byte, t.Room*r.stride())
	for i := 0; i < len(r.data); i += 4096 {
		r.data[i] = 0 // fault the page in before the worker writes to it
	}
	if t.Points[Decided] {
		r.traces.init(t.Snap)
	}
	return r
}

// stride returns the number of data bytes per record.
func (r *captureRing) stride() int {
	if r.capture.Points[Decided] {
		return 2 * r.capture.Snap
	}
	return r.capture.Snap
}

// first returns the oldest unread record.
func (r *captureRing) first() *Record { return &r.records[r.tail.Load()%uint64(len(r.records))] }

// reserve returns the next record and its data buffer. If the ring is full, it counts a missed packet
// and returns nil.
func (r *captureRing) reserve(port uint16) (*Record, []byte) {
	if r.next-r.tail.Load() >= uint64(len(r.records)) {
		r.counts[port].missed.Add(1)
		return nil, nil
	}
	r.counts[port].captured.Add(1)
	i, size := int(r.next%uint64(len(r.records))), r.stride()
	r.next++
	return &r.records[i], r.data[i*size : (i+1)*size : (i+1)*size]
}

// publish makes all written records readable.
func (r *captureRing) publish() { r.head.Store(r.next) }

// wants reports whether a frame matches the capture at a point.
func (r *captureRing) wants(p Point, port uint16, frame []byte) bool {
	return r.capture.Points[p] && (r.capture.Ports == nil || r.capture.Ports[port]) && r.capture.Filter.Match(frame)
}

// copy writes a record. It returns nil if the ring is full.
func (r *captureRing) copy(p Point, at time.Duration, port uint16, f batch.Frame, b []byte) *Record {
	rec, room := r.reserve(port)
	if rec == nil {
		return nil
	}
	*rec = Record{
		Point: p, Time: at, Worker: r.worker, Port: port, Ingress: f.Origin.Port(), Marks: f.Origin.Marks(),
		Len: len(b), Data: room[:copy(room[:r.capture.Snap], b)],
	}
	return rec
}
