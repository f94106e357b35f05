package dataplane

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/packet/filter"
	"github.com/warproute/warproute/umem"
)

// Point is where on its way a packet is looked at.
type Point uint8

const (
	Received  Point = iota // as the port received it, before an engine has it
	Sent                   // as the port took it
	Dropped                // as it lies when it is given up: an engine leaves those as they came
	Decided                // as the port received it, with what was decided, when it is on its way
	NumPoints = iota
)

// TapConfig says which packets a tap copies, and how much of them.
type TapConfig struct {
	Points  [NumPoints]bool
	Ports   []bool                 // by number, that received or sent them; nil: all
	Reasons [batch.NumReasons]bool // of those dropped
	Filter  *filter.Filter
	Snap    int // bytes of a frame that are kept, at most
	Room    int // records that a worker may be ahead of who reads them
}

// Tap copies packets of a running router. Workers never wait for whoever reads: what
// does not fit is missed, and counted.
type Tap struct {
	TapConfig
	rings []*tapRing // by worker
}

// Record is what a tap has of a packet.
type Record struct {
	Point   Point
	Time    time.Duration // by batch.Clock, of its chunk
	Worker  int
	Port    uint16       // that received the packet; of Sent, that sent it
	Ingress uint16       // that received it, or what it was made of
	Marks   uint16       // batch.Secured, batch.Own
	Reason  batch.Reason // of Dropped
	Len     int          // of the frame, in bytes
	Data    []byte       // its first bytes
	Inside  bool         // of Dropped: IPsec made another packet of it, and no link addresses are there

	Decision Decision // of Decided
}

// Decision is what became of a packet.
type Decision struct {
	Queue   int          // which of the worker's queues received it, in the order of the configuration
	Packets int          // in its chunk
	Result  batch.Result // the engine's
	Moved   bool         // IPsec made another packet of it
	Dropped bool         // whatever the engine decided,
	Reason  batch.Reason // for this reason
	After   []byte       // the first bytes of the frame that the engine left
	batch.Stamps
}

// taps are those of a router.
type taps struct {
	mu  sync.Mutex
	all []*Tap
}

// Tap starts to copy packets. It may be called at any time, and so may all that a tap
// does.
func (r *Router) Tap(cfg TapConfig) *Tap {
	cfg.Snap, cfg.Room = min(cfg.Snap, umem.MaxLargeLen), max(cfg.Room, 1)
	t := &Tap{TapConfig: cfg}
	for i := range r.workers {
		t.rings = append(t.rings, newTapRing(t, i, r.ports))
	}
	r.taps.change(r.workers, func(all []*Tap) []*Tap { return append(all, t) })
	return t
}

// Untap ends a tap. What it has can still be read.
func (r *Router) Untap(t *Tap) {
	r.taps.change(r.workers, func(all []*Tap) []*Tap {
		return slices.DeleteFunc(all, func(x *Tap) bool { return x == t })
	})
}

// change tells every worker which rings are its own from now on.
func (t *taps) change(workers []*worker, f func([]*Tap) []*Tap) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = f(slices.Clone(t.all))
	for i, w := range workers {
		if len(t.all) == 0 {
			w.taps.Store(nil)
			continue
		}
		rings := make(tapped, len(t.all))
		for j, tap := range t.all {
			rings[j] = tap.rings[i]
		}
		w.taps.Store(&rings)
	}
}

// Read calls f with the records that are there, in the order of their times, until it
// returns false. A record is f's only until it returns. One goroutine reads a tap.
func (t *Tap) Read(f func(*Record) bool) (n int) {
	heads := make([]uint64, len(t.rings))
	for i, r := range t.rings {
		heads[i] = r.head.Load()
	}
	for {
		var next *tapRing
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

// Counts returns how many packets of a port the tap took and how many it missed.
func (t *Tap) Counts(port int) (taken, missed uint64) {
	for _, r := range t.rings {
		taken += r.counts[port].taken.Load()
		missed += r.counts[port].missed.Load()
	}
	return taken, missed
}

// tapRing takes records from one worker to whoever reads the tap.
type tapRing struct {
	tap     *Tap
	worker  int
	records []Record
	data    []byte // Snap bytes a record; of a tap of decisions twice as many
	next    uint64 // the worker's; what is below head can be read
	counts  []tapCounts
	pending pending

	head atomic.Uint64 // records written
	_    [56]byte
	tail atomic.Uint64 // records read
	_    [56]byte
}

type tapCounts struct{ taken, missed atomic.Uint64 }

func newTapRing(t *Tap, worker, ports int) *tapRing {
	r := &tapRing{tap: t, worker: worker, records: make([]Record, t.Room), counts: make([]tapCounts, ports)}
	r.data = make([]byte, t.Room*r.stride())
	for i := 0; i < len(r.data); i += 4096 {
		r.data[i] = 0 // so that the page is there before the worker writes to it
	}
	if t.Points[Decided] {
		r.pending.init(t.Snap)
	}
	return r
}

func (r *tapRing) stride() int {
	if r.tap.Points[Decided] {
		return 2 * r.tap.Snap
	}
	return r.tap.Snap
}

// first is the oldest record that was not read.
func (r *tapRing) first() *Record { return &r.records[r.tail.Load()%uint64(len(r.records))] }

// record returns the next record and the memory for its bytes; nil, and counts it as
// missed, where the reader is too far behind.
func (r *tapRing) record(port uint16) (*Record, []byte) {
	if r.next-r.tail.Load() >= uint64(len(r.records)) {
		r.counts[port].missed.Add(1)
		return nil, nil
	}
	r.counts[port].taken.Add(1)
	i, size := int(r.next%uint64(len(r.records))), r.stride()
	r.next++
	return &r.records[i], r.data[i*size : (i+1)*size : (i+1)*size]
}

// publish lets the reader have what was written.
func (r *tapRing) publish() { r.head.Store(r.next) }

// wants reports whether the tap takes a frame at a point.
func (r *tapRing) wants(p Point, port uint16, frame []byte) bool {
	return r.tap.Points[p] && (r.tap.Ports == nil || r.tap.Ports[port]) && r.tap.Filter.Match(frame)
}
