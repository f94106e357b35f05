package gateway

// miss reports to the control plane that a packet found no SA of a tunnel, once until Answered. The
// packet is dropped; nobody waits.
func (r *Ruleset) miss(n uint32) {
	b := r.tunnels[n]
	if r.missing == nil || b.missed.Load() || !b.missed.CompareAndSwap(false, true) {
		return
	}
	select {
	case r.missing <- n:
	default:
		b.missed.Store(false) // the next packet tries again
	}
}

// Answered re-enables reports of a tunnel on Missing.
func (g *Gateway) Answered(n uint32) {
	if b := g.tunnels.get(n); b != nil {
		b.missed.Store(false)
	}
}
