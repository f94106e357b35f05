package dataplane

import "sync"

// physicalRegistry lists the physical ports. As those of logical ports, counters of a number never decrease:
// those of a port are their growth since it was opened.
type physicalRegistry struct {
	mu     sync.Mutex
	ports  []physicalPort // by number
	former PortStats      // of closed ports whose number was opened again
}

type physicalPort struct {
	open bool
	base PortStats // counters of the number when the port was opened
}

func (p *physicalRegistry) isOpen(port int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ports[port].open
}

func (p *physicalRegistry) close(port int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ports[port].open = false
}

// openCounters starts the counters of a port at zero. It reports false if the number has a port.
func (r *Router) openCounters(port int) bool {
	r.logical.mu.Lock()
	defer r.logical.mu.Unlock()
	p := &r.physical
	p.mu.Lock()
	defer p.mu.Unlock()
	of := &p.ports[port]
	if of.open {
		return false
	}
	now := r.physicalCounters(port)
	growth := now
	growth.sub(&of.base)
	p.former.Add(&growth)
	of.open, of.base = true, now
	r.logical.forget(r, uint16(port), &p.former)
	return true
}

// forget moves the counters of deleted logical ports of a physical port to another place.
func (l *logicalRegistry) forget(r *Router, physical uint16, to *PortStats) {
	for number, p := range l.ports {
		if p.deleted && p.physical == physical {
			growth := r.countersOf(number)
			growth.sub(&p.base)
			to.addIngress(&growth)
			delete(l.ports, number)
		}
	}
	if former := l.former[physical]; former != nil {
		to.addIngress(former)
		delete(l.former, physical)
	}
}

// physicalCounters sums the workers' counters of a number.
func (r *Router) physicalCounters(port int) (s PortStats) {
	for _, w := range r.workers {
		s.add(&w.counters[port])
	}
	return s
}

// add adds the physical ports to statistics.
func (p *physicalRegistry) add(r *Router, s *Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Removed = p.former
	for i := range p.ports {
		now := r.physicalCounters(i)
		now.sub(&p.ports[i].base)
		if p.ports[i].open {
			s.Ports[i] = now
		} else {
			s.Removed.Add(&now)
		}
	}
}

// of returns the place in statistics of a physical port, or of removed ones.
func (p *physicalRegistry) of(s *Stats, port uint16) *PortStats {
	if p.isOpen(int(port)) {
		return &s.Ports[port]
	}
	return &s.Removed
}

// Add adds other counters.
func (p *PortStats) Add(o *PortStats) {
	p.RxPackets += o.RxPackets
	p.RxBytes += o.RxBytes
	p.TxPackets += o.TxPackets
	p.TxBytes += o.TxBytes
	p.addIngress(o)
}
