package gateway

// miss tells the control plane that a packet found no association in a bundle, once until
// Answered. The packet is dropped; nobody waits for anything.
func (r *Ruleset) miss(n uint32) {
	b := r.bundles[n]
	if r.missing == nil || b.missed.Load() || !b.missed.CompareAndSwap(false, true) {
		return
	}
	select {
	case r.missing <- n:
	default:
		b.missed.Store(false) // the next packet tries again
	}
}

// Answered has Missing tell of a bundle again.
func (g *Gateway) Answered(n uint32) {
	if b := g.bundles.get(n); b != nil {
		b.missed.Store(false)
	}
}
