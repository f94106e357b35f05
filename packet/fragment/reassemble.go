package fragment

import (
	"slices"
	"time"
)

// Limits bound a Reassembler. A field of zero is that of DefaultLimits.
type Limits struct {
	Datagrams int           // that wait for fragments at a time; each may occupy 64 KiB
	PerSource int           // of these, from one IPv4 address or IPv6 /64
	Timeout   time.Duration // from a datagram's first fragment to its last
}

// DefaultLimits occupy 17 MB at most. The time is short against the 60 seconds of
// RFC 8200: fragments that come at all come within a moment of one another, and a
// busy IPv4 sender uses its identifications again within seconds, so that old
// fragments would meet new ones (RFC 4963).
var DefaultLimits = Limits{Datagrams: 256, PerSource: 64, Timeout: 2 * time.Second}

// Counters count datagrams. Refused fragments are told by errors.
type Counters struct {
	Whole    uint64 // put together
	TimedOut uint64 // given up because fragments were missing for too long
	Evicted  uint64 // given up for a newer one, at a limit
}

// Reassembler puts the fragments of both families together. Its memory is
// reserved once. It belongs to one goroutine.
//
// At a limit, the oldest datagram that nobody expects gives way to a new one, one of the same
// source if it is the source's limit; the oldest of all where all are expected. So, in a flood of fragments that never become
// whole, honest ones have as long to come together as the flood takes to turn the
// memory over, and are not locked out until it times out.
type Reassembler struct {
	limits   Limits
	counters Counters
	lost     uint64

	free    []*datagram // never empty: there is one more than may wait
	waiting []*datagram // oldest first
	byKey   map[key]*datagram
	sources map[source]int // of those that wait
}

// NewReassembler returns a reassembler without fragments.
func NewReassembler(l Limits) *Reassembler {
	if l.Datagrams <= 0 {
		l.Datagrams = DefaultLimits.Datagrams
	}
	if l.PerSource <= 0 {
		l.PerSource = DefaultLimits.PerSource
	}
	if l.Timeout <= 0 {
		l.Timeout = DefaultLimits.Timeout
	}
	r := &Reassembler{
		limits:  l,
		free:    make([]*datagram, 0, l.Datagrams+1),
		waiting: make([]*datagram, 0, l.Datagrams),
		byKey:   make(map[key]*datagram, l.Datagrams),
		sources: make(map[source]int, l.Datagrams),
	}
	// Linux gives pages to what is written, so that short datagrams take little.
	all, memory := make([]datagram, l.Datagrams+1), make([]byte, (l.Datagrams+1)*bufferLen)
	for i := range all {
		all[i].buf = memory[i*bufferLen : (i+1)*bufferLen]
		r.free = append(r.free, &all[i])
	}
	return r
}

// Origin is what a fragment does not say of itself.
type Origin struct {
	Domain   uint8 // fragments of different domains do not become one packet
	Expected bool  // the datagram is wanted: those of strangers make room for it
}

// Add is AddFrom with the zero Origin.
func (r *Reassembler) Add(now time.Duration, p []byte) (whole []byte, err error) {
	return r.AddFrom(now, p, Origin{})
}

// AddFrom takes in a packet, from its IP header on, whose IPv4 header checksum has
// been checked. If it completes a datagram, the whole packet is returned, which is
// valid until the next call; if others are missing, nil. A packet that is no
// fragment is returned as it is. The packet itself is not kept.
//
// An error says why the fragment is refused. ErrMalformed and ErrTooLong concern
// it alone; the others end its datagram, and come again for each further fragment
// until that would have timed out.
//
// now is the time since an arbitrary start, and does not run backwards.
func (r *Reassembler) AddFrom(now time.Duration, p []byte, from Origin) (whole []byte, err error) {
	r.Expire(now)
	f, fragment, err := parse(p)
	if err != nil {
		return nil, err
	}
	if !fragment {
		return p, nil
	}
	f.domain = from.Domain
	if f.offset == 0 && !f.more { // of IPv6: first and last, whatever else has its key (RFC 6946)
		d := r.free[len(r.free)-1]
		d.reset(f.key, now)
		if err := d.add(&f); err != nil {
			return nil, err
		}
		return r.finish(d)
	}
	d := r.byKey[f.key]
	if d == nil {
		d = r.start(now, f.key)
	}
	d.expected = d.expected || from.Expected
	if err := d.add(&f); err != nil {
		r.lose(d)
		return nil, err
	}
	if !d.complete() {
		d.taken++
		return nil, nil
	}
	r.remove(d)
	return r.finish(d)
}

// Expire gives up the datagrams whose time is over. Add does so, too; Expire is
// for when no fragments come.
func (r *Reassembler) Expire(now time.Duration) {
	for len(r.waiting) > 0 && now-r.waiting[0].born >= r.limits.Timeout {
		r.giveUp(r.waiting[0], &r.counters.TimedOut)
	}
}

// Counters returns what was counted so far.
func (r *Reassembler) Counters() Counters { return r.counters }

// Lost is the number of fragments that were taken in, and whose datagrams ended without
// becoming whole. Those that were refused do not count.
func (r *Reassembler) Lost() uint64 { return r.lost }

// lose counts the fragments of a datagram that will not become whole.
func (r *Reassembler) lose(d *datagram) {
	r.lost += uint64(d.taken)
	d.taken = 0
}

// Waiting is the number of datagrams that wait for fragments, or were abandoned
// and wait for their time to be over.
func (r *Reassembler) Waiting() int { return len(r.waiting) }

// start makes room for a datagram of which nothing came yet.
func (r *Reassembler) start(now time.Duration, k key) *datagram {
	from := k.source()
	switch {
	case r.sources[from] >= r.limits.PerSource:
		r.giveUp(r.dispensable(func(d *datagram) bool { return d.source() == from }), &r.counters.Evicted)
	case len(r.waiting) == r.limits.Datagrams:
		r.giveUp(r.dispensable(func(*datagram) bool { return true }), &r.counters.Evicted)
	}
	d := r.free[len(r.free)-1]
	r.free = r.free[:len(r.free)-1]
	d.reset(k, now)
	r.waiting = append(r.waiting, d)
	r.byKey[k] = d
	r.sources[from]++
	return d
}

// dispensable returns the datagram that makes room, of those that one is to be of.
func (r *Reassembler) dispensable(of func(*datagram) bool) (oldest *datagram) {
	for _, d := range r.waiting {
		switch {
		case !of(d):
		case !d.expected || d.err != nil:
			return d
		case oldest == nil:
			oldest = d
		}
	}
	return oldest
}

// giveUp removes a datagram and counts it, unless an error told of its end.
func (r *Reassembler) giveUp(d *datagram, counter *uint64) {
	if d.err == nil {
		*counter++
	}
	r.lose(d)
	r.remove(d)
}

// remove frees a datagram. What is in it stays there until the next is started.
func (r *Reassembler) remove(d *datagram) {
	i := slices.Index(r.waiting, d)
	r.waiting = slices.Delete(r.waiting, i, i+1)
	r.free = append(r.free, d)
	delete(r.byKey, d.key)
	from := d.source()
	if r.sources[from]--; r.sources[from] == 0 {
		delete(r.sources, from)
	}
}

func (r *Reassembler) finish(d *datagram) ([]byte, error) {
	whole, err := d.finish()
	if err != nil {
		r.lose(d)
		return nil, err
	}
	r.counters.Whole++
	return whole, nil
}
