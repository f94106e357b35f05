package fragment

import (
	"slices"
	"time"
)

// Limits bound a Reassembler. A zero field means that of DefaultLimits.
type Limits struct {
	Datagrams int           // incomplete datagrams; each may occupy 64 KiB
	PerSource int           // of these, from one IPv4 address or IPv6 /64
	Timeout   time.Duration // since a datagram's first fragment
}

// DefaultLimits occupy at most 17 MB. The timeout is short compared to the 60 s of RFC 8200: fragments
// of a datagram arrive together, and a busy IPv4 sender reuses identifications within seconds, so
// old fragments would be combined with new ones (RFC 4963).
var DefaultLimits = Limits{Datagrams: 256, PerSource: 64, Timeout: 2 * time.Second}

// Counters count datagrams. Refused fragments are reported by errors.
type Counters struct {
	Whole    uint64 // reassembled
	TimedOut uint64 // removed because fragments were missing
	Evicted  uint64 // removed at a limit
}

// Reassembler reassembles fragments of both families. Its memory is reserved once. It is for one
// goroutine.
//
// At a limit, the oldest datagram that is not expected is evicted, from the same source if the source's
// limit is reached; if all are expected, the oldest of all. So in a flood of fragments that never become
// whole, legitimate ones have the time that the flood needs to fill the memory, and are not locked out
// until it times out.
type Reassembler struct {
	limits   Limits
	counters Counters
	lost     uint64

	free    []*datagram // never empty: one more than may wait
	waiting []*datagram // oldest first
	byKey   map[key]*datagram
	sources map[source]int // number in waiting
}

// NewReassembler returns an empty reassembler.
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
	// Linux allocates pages on write, so short datagrams take little.
	all, memory := make([]datagram, l.Datagrams+1), make([]byte, (l.Datagrams+1)*bufferLen)
	for i := range all {
		all[i].buf = memory[i*bufferLen : (i+1)*bufferLen]
		r.free = append(r.free, &all[i])
	}
	return r
}

// Origin describes where a fragment comes from.
type Origin struct {
	Domain   uint8 // fragments of different domains are not combined
	Expected bool  // the datagram is expected: unexpected ones are evicted first
}

// Add is AddFrom with the zero Origin.
func (r *Reassembler) Add(now time.Duration, p []byte) (whole []byte, err error) {
	return r.AddFrom(now, p, Origin{})
}

// AddFrom accepts a packet, from its IP header on, whose IPv4 header checksum was verified. If it
// completes a datagram, it returns the whole packet, which is valid until the next call; if fragments
// are missing, nil. A packet that is not a fragment is returned unchanged. It does not keep the packet.
//
// An error is the reason why the fragment is refused. ErrMalformed and ErrTooLong concern the fragment;
// the others abandon its datagram, and are repeated for its further fragments until it would have
// timed out.
//
// now is the time since an arbitrary start, and never decreases.
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
	if f.offset == 0 && !f.more { // IPv6 atomic fragment, independent of others with its key (RFC 6946)
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

// Expire removes datagrams that have timed out. Add does so, too; Expire is for times without
// fragments.
func (r *Reassembler) Expire(now time.Duration) {
	for len(r.waiting) > 0 && now-r.waiting[0].born >= r.limits.Timeout {
		r.giveUp(r.waiting[0], &r.counters.TimedOut)
	}
}

// Counters returns the counters.
func (r *Reassembler) Counters() Counters { return r.counters }

// Lost returns the number of accepted fragments whose datagrams were never completed. Refused fragments do
// not count.
func (r *Reassembler) Lost() uint64 { return r.lost }

// lose counts the fragments of an incomplete datagram as lost.
func (r *Reassembler) lose(d *datagram) {
	r.lost += uint64(d.taken)
	d.taken = 0
}

// Waiting returns the number of datagrams that wait for fragments, or were abandoned and wait for their
// timeout.
func (r *Reassembler) Waiting() int { return len(r.waiting) }

// start returns a new datagram, and evicts one at a limit.
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

// dispensable returns the datagram to evict.
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

// giveUp removes a datagram and counts it, unless an error was reported for it.
func (r *Reassembler) giveUp(d *datagram, counter *uint64) {
	if d.err == nil {
		*counter++
	}
	r.lose(d)
	r.remove(d)
}

// remove frees a datagram. Its content stays until the next one starts.
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
