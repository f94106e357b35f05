package dataplane

import (
	"cmp"
	"slices"
	"sync"
)

// LogicalStats are the counters of a logical port since it was added, all workers together. Bytes are without
// tags.
type LogicalStats struct {
	Number   uint16
	Physical uint16 // port that carries its frames
	PortStats
}

// logicalRegistry lists the logical ports. Counters of a number never decrease; those of a port are their
// growth since it was added.
type logicalRegistry struct {
	mu     sync.Mutex
	ports  map[uint16]*registered
	former map[uint16]*PortStats // drops and exits of deleted ports whose number is used again, by physical port
}

type registered struct {
	physical uint16
	base     PortStats // counters of the number when the port was added
	deleted  bool
}

// AddPort adds a logical port that a physical port carries. It precedes the addition of the VLAN to the
// FIB: workers drop frames of other VLANs. It may be called at any time.
func (r *Router) AddPort(number, physical uint16) {
	l := &r.logical
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range r.workers {
		if w.logical.get(number) == nil {
			w.logical.all[number].Store(new(logicalPort))
		}
	}
	now := r.countersOf(number)
	if was := l.ports[number]; was != nil {
		if l.former[was.physical] == nil {
			l.former[was.physical] = new(PortStats)
		}
		growth := now
		growth.sub(&was.base)
		l.former[was.physical].addIngress(&growth)
	}
	l.ports[number] = &registered{physical: physical, base: now}
}

// DeletePort deletes a logical port. Its drops and exits count as those of its physical port from now on.
func (r *Router) DeletePort(number uint16) {
	r.logical.mu.Lock()
	defer r.logical.mu.Unlock()
	if p := r.logical.ports[number]; p != nil {
		p.deleted = true
	}
}

// countersOf sums the workers' counters of a number.
func (r *Router) countersOf(number uint16) (s PortStats) {
	for _, w := range r.workers {
		if p := w.logical.get(number); p != nil {
			s.RxPackets += p.rxPackets.Load()
			s.RxBytes += p.rxBytes.Load()
			s.TxPackets += p.txPackets.Load()
			s.TxBytes += p.txBytes.Load()
			s.ExitPackets += p.exitPackets.Load()
			s.ExitBytes += p.exitBytes.Load()
			for r := range p.drops {
				s.Drops[r] += p.drops[r].Load()
			}
		}
	}
	return s
}

// add lists the logical ports in the statistics.
func (l *logicalRegistry) add(r *Router, s *Stats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Logical = slices.Grow(s.Logical, len(l.ports))
	for number, p := range l.ports {
		now := r.countersOf(number)
		now.sub(&p.base)
		if !p.deleted {
			s.Logical = append(s.Logical, LogicalStats{number, p.physical, now})
			continue
		}
		r.physical.of(s, p.physical).addIngress(&now)
	}
	for physical, former := range l.former {
		r.physical.of(s, physical).addIngress(former)
	}
	slices.SortFunc(s.Logical, func(a, b LogicalStats) int { return cmp.Compare(a.Number, b.Number) })
}

// addIngress adds the counters of another port that a physical port does not include: drops and exits.
func (p *PortStats) addIngress(o *PortStats) {
	p.ExitPackets += o.ExitPackets
	p.ExitBytes += o.ExitBytes
	for r := range p.Drops {
		p.Drops[r] += o.Drops[r]
	}
}

// add adds a worker's counters.
func (p *PortStats) add(c *portCounters) {
	p.RxPackets += c.rxPackets.Load()
	p.RxBytes += c.rxBytes.Load()
	p.TxPackets += c.txPackets.Load()
	p.TxBytes += c.txBytes.Load()
	p.ExitPackets += c.exitPackets.Load()
	p.ExitBytes += c.exitBytes.Load()
	for r := range c.drops {
		p.Drops[r] += c.drops[r].Load()
	}
}

// sub subtracts earlier counters.
func (p *PortStats) sub(o *PortStats) {
	p.RxPackets -= o.RxPackets
	p.RxBytes -= o.RxBytes
	p.TxPackets -= o.TxPackets
	p.TxBytes -= o.TxBytes
	p.ExitPackets -= o.ExitPackets
	p.ExitBytes -= o.ExitBytes
	for r := range p.Drops {
		p.Drops[r] -= o.Drops[r]
	}
}
