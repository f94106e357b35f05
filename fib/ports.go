package fib

import (
	"fmt"
	"sync"
	"time"
)

// PortNumbers hands out the numbers of physical ports, from 0 to a limit. A freed number is handed out again
// when no packet can refer to the earlier port: every Reader has passed a later epoch, so no chunk in flight, on the CPU
// or a GPU, was decided with the earlier entries, and reuseAfter has passed, so packets that wait for a
// neighbor or a fragment have left.
type PortNumbers struct {
	mu      sync.Mutex
	limit   int
	next    int // lowest number that was never used
	used    int
	freed   []freedPort // oldest first
	readers *readers
	now     func() time.Time
}

// NewPortNumbers returns numbers below a limit, of which the first are in use.
func (f *FIB) NewPortNumbers(used, limit int) *PortNumbers {
	return &PortNumbers{limit: limit, next: used, used: used, readers: &f.readers, now: time.Now}
}

// Take returns a free number, the one that is free for the longest time if it can be used again. The error
// is ErrFull.
func (p *PortNumbers) Take() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.freed) > 0 {
		if f := p.freed[0]; f.epoch <= p.readers.oldest() && p.now().Sub(f.at) >= reuseAfter {
			p.freed = p.freed[1:]
			p.used++
			return int(f.number), nil
		}
	}
	if p.next < p.limit {
		p.next++
		p.used++
		return p.next - 1, nil
	}
	return 0, fmt.Errorf("%w: %d of %d numbers of physical ports are in use, and others were freed in the last %v", ErrFull, p.used, p.limit, reuseAfter)
}

// Untake frees a number of Take that no worker has seen, for the next Take.
func (p *PortNumbers) Untake(number int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.freed = append([]freedPort{{number: uint16(number)}}, p.freed...)
	p.used--
}

// Free frees a number whose entries are those of a port that is down.
func (p *PortNumbers) Free(number int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.freed = append(p.freed, freedPort{uint16(number), p.readers.epoch.Add(1), p.now()})
	p.used--
}
