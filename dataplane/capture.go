package dataplane

import (
	"slices"
	"sync"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/packet/filter"
	"github.com/warproute/warproute/umem"
)

// Point is a place on a packet's way where it can be captured.
type Point uint8

const (
	Received  Point = iota // as received
	Sent                   // as transmitted
	Dropped                // when it is dropped; an engine does not modify such packets
	Decided                // as received, with the engine's decision, when its chunk is complete
	NumPoints = iota
)

// CaptureConfig selects the packets of a capture, and how much of each is copied.
type CaptureConfig struct {
	Points  [NumPoints]bool
	Ports   []bool                 // by number: received or transmitted by these; nil for all
	Reasons [batch.NumReasons]bool // of dropped packets
	Filter  *filter.Filter
	Snap    int // maximum bytes of a frame
	Room    int // records in the ring of a worker
}

// Capture copies packets of a running router. Workers never wait for the reader: packets that do not
// fit the rings are missed and counted.
type Capture struct {
	CaptureConfig
	rings []*captureRing // by worker
}

// Record is one captured packet.
type Record struct {
	Point   Point
	Time    time.Duration // batch.Clock
	Worker  int
	Port    uint16       // ingress port; egress port for Sent
	Ingress uint16       // ingress port, of the original packet if the router made this one of it
	Marks   batch.Mark   // of the frame
	Reason  batch.Reason // for Dropped
	Len     int          // of the frame, in bytes
	Data    []byte       // its first bytes
	Inside  bool         // for Dropped: an inner packet of IPsec, without link addresses

	Decision Decision // for Decided
}

// Decision is the engine's decision on a packet and its outcome.
type Decision struct {
	Queue   int          // queue of the worker that received it, in the order of the configuration
	Packets int          // in its chunk
	Result  batch.Result // of the engine
	Moved   bool         // IPsec replaced the packet
	Dropped bool         // whatever the result is
	Reason  batch.Reason // of the drop
	After   []byte       // first bytes of the frame after the engine
	batch.Stamps
}

// captures are the running captures of a router.
type captures struct {
	mu  sync.Mutex
	all []*Capture
}

// StartCapture starts a capture. It may be called at any time, like the methods of the capture.
func (r *Router) StartCapture(cfg CaptureConfig) *Capture {
	cfg.Snap, cfg.Room = min(cfg.Snap, umem.MaxLargeLen), max(cfg.Room, 1)
	if cfg.Ports != nil { // ports that are added later are not captured
		cfg.Ports = append(slices.Clone(cfg.Ports), make([]bool, batch.MaxPorts-len(cfg.Ports))...)
	}
	t := &Capture{CaptureConfig: cfg}
	for i := range r.workers {
		t.rings = append(t.rings, newCaptureRing(t, i))
	}
	r.captures.update(r.workers, func(all []*Capture) []*Capture { return append(all, t) })
	return t
}

// StopCapture stops a capture. Its records can still be read.
func (r *Router) StopCapture(t *Capture) {
	r.captures.update(r.workers, func(all []*Capture) []*Capture {
		return slices.DeleteFunc(all, func(x *Capture) bool { return x == t })
	})
}

// update changes the list of captures and publishes each worker's rings.
func (t *captures) update(workers []*worker, f func([]*Capture) []*Capture) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = f(slices.Clone(t.all))
	for i, w := range workers {
		if len(t.all) == 0 {
			w.captures.Store(nil)
			continue
		}
		rings := make(captureRings, len(t.all))
		for j, c := range t.all {
			rings[j] = c.rings[i]
		}
		w.captures.Store(&rings)
	}
}

// Read calls f with the available records in the order of their times until f returns false. The
// record is only valid during the call. One goroutine reads a capture.
func (t *Capture) Read(f func(*Record) bool) (n int) {
	heads := make([]uint64, len(t.rings))
	for i, r := range t.rings {
		heads[i] = r.head.Load()
	}
	for {
		var next *captureRing
		for i, r := range t.rings {
			if r.tail.Load() < heads[i] && (next == nil || r.first().Time < next.first().Time) {
				next = r
			}
		}
		if next == nil {
			return n
		}
		more := f(next.first())
		next.tail.Add(1)
		if n++; !more {
			return n
		}
	}
}

// Counts returns the numbers of captured and missed packets of a port.
func (t *Capture) Counts(port int) (captured, missed uint64) {
	for _, r := range t.rings {
		captured += r.counts[port].captured.Load()
		missed += r.counts[port].missed.Load()
	}
	return captured, missed
}
