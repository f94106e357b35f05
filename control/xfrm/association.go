package xfrm

import (
	"cmp"
	"slices"
	"time"

	"github.com/warproute/warproute/ipsec"
)

// association is a state, and what it is in the gateway.
type association struct {
	*state
	sa      *ipsec.SA // nil: refused, larval, or not yet
	refused bool
	waits   bool   // for its direction to be known
	gap     uint64 // what it skips, outbound, beyond what Linux knows
	pushed  pushed
}

// about is the association to the log.
func (a *association) about() []any {
	return []any{"spi", spiText(a.id.spi), "src", a.src, "dst", a.id.dst, "reqid", a.reqid}
}

// setState takes a state that is new or was changed, and its keys.
func (t *tables) setState(s *state) {
	s.keys = s.fingerprint(t.seed)
	s.secret = s.nonces(t.seed)
	if old := t.states[s.id]; old != nil {
		if old.params == s.params && old.larval == s.larval {
			s.wipe()
			return
		}
		t.deleteState(s.id)
	}
	a := &association{state: s, gap: t.gap}
	t.states[s.id] = a
	t.install(a)
}

// deleteState takes a state out of the gateway, if it is there. Its keys are
// overwritten, and its last sequence number is noted, once no worker can use it.
func (t *tables) deleteState(id stateID) {
	a := t.states[id]
	if a == nil {
		return
	}
	delete(t.states, id)
	a.wipe()
	s := a.sa
	if s == nil {
		return
	}
	t.withdraw(a)
	t.changed = true
	secret, numbers := a.secret, a.numbers(s.Config().Direction)
	t.hooks.Quiescent(func() {
		last := s.Sequence()
		s.Zero()
		t.quiesced.put(func() { t.depart(departed{secret, numbers, last}) })
	})
}

// add puts an association into the gateway.
func (t *tables) add(a *association) {
	if err := t.gateway.Keep(a.sa); err != nil {
		t.refuse(a, err.Error())
		a.sa.Zero() // no worker has seen it
		a.sa = nil
		return
	}
	if a.out() {
		id := a.bundle()
		t.outbound[id] = append(t.outbound[id], a)
		t.choose(id)
	}
}

// withdraw takes it out, after another has taken its place.
func (t *tables) withdraw(a *association) {
	if a.out() {
		id := a.bundle()
		t.outbound[id] = slices.DeleteFunc(t.outbound[id], func(x *association) bool { return x == a })
		t.choose(id)
	}
	t.gateway.Remove(a.sa)
}

// choose has packets leave by the association of a bundle that policies ask for by its
// SPI, or else by the newest. Key daemons have the next one there before the peer does,
// and say by their policies when to begin with it.
func (t *tables) choose(id bundleID) {
	all := t.outbound[id]
	if len(all) == 0 {
		delete(t.outbound, id)
		return
	}
	chosen := all[len(all)-1]
	for _, a := range all {
		if a.id.spi == t.asked[id] {
			chosen = a
		}
	}
	t.gateway.Use(chosen.sa)
}

// out reports whether it protects what leaves; it must be in the gateway.
func (a *association) out() bool { return a.sa.Config().Direction == ipsec.Out }

// install puts an association into the gateway when all that it needs is known.
func (t *tables) install(a *association) {
	if a.larval {
		return
	}
	if a.refusal != "" {
		t.refuse(a, a.refusal)
		return
	}
	direction, ok := t.direction(a.state)
	if a.waits = !ok; a.waits {
		t.log.Warn("an XFRM state's addresses do not tell its direction; it waits for a policy that names it", a.about()...)
		return
	}
	if other, must := t.memory.wait(a); must { // until that has ended, after whose numbers it begins
		if t.states[other] != nil {
			t.log.Error("an XFRM state has the key of another, and both would use the same nonces; it waits until that is gone",
				append(a.about(), "other", spiText(other.spi), "to", other.dst)...)
		}
		return
	}
	defer a.wipe()
	s, err := ipsec.NewSA(t.config(a, direction), t.workers)
	if err != nil {
		t.refuse(a, err.Error())
		return
	}
	first := max(a.sequence[direction], t.memory.last(a.numbers(direction)))
	if direction == ipsec.Out {
		first = max(first, first+a.gap) // not beyond the end, and to the beginning
	}
	s.Skip(first)
	s.WasUsed(a.usedBefore())
	a.sa = s
	t.changed = true
	if t.add(a); a.sa != nil {
		t.memory.enter(a)
	}
}

// decide installs the associations whose direction is known by now, the oldest first.
func (t *tables) decide() {
	var ready []*association
	for _, a := range t.states {
		if a.waits {
			if _, ok := t.direction(a.state); ok {
				ready = append(ready, a)
			}
		}
	}
	slices.SortFunc(ready, func(a, b *association) int { return cmp.Compare(a.added, b.added) })
	for _, a := range ready {
		t.install(a)
	}
}

// minWindow is the least replay window that an inbound association has, unless it
// has none.
const minWindow = 1024

// config describes an association in our terms.
func (t *tables) config(a *association, direction ipsec.Direction) ipsec.Config {
	bundle := a.bundle().String()
	c := ipsec.Config{
		Name: bundle, SPI: a.id.spi, Direction: direction,
		Src: a.src, Dst: a.id.dst,
		Suite: a.suite, Key: a.key, AuthKey: a.authKey, ESN: a.esn,
		Bundle: t.gateway.Bundle(bundle),
		DF:     a.df, Lifetime: a.limits, Clock: &t.gateway.Clock, Nonces: &t.gateway.Nonces,
	}
	if a.mode == modeTransport {
		c.Mode = ipsec.Transport
	}
	if direction == ipsec.In && a.window > 0 {
		c.ReplayWindow = max(a.window, minWindow)
	}
	if a.encap != (ipsec.Encap{}) {
		c.Encap = &a.encap
	}
	clamp(&c.Lifetime.Soft.Bytes, c.Lifetime.Hard.Bytes)
	clamp(&c.Lifetime.Soft.Packets, c.Lifetime.Hard.Packets)
	return c
}

// usedBefore is what Linux says that the association was used for.
func (a *association) usedBefore() ipsec.Limits {
	u := ipsec.Limits{Packets: a.packets, Bytes: a.bytes}
	if a.added != 0 {
		u.Age = max(0, time.Since(time.Unix(int64(a.added), 0)))
	}
	return u
}

// clamp has a soft limit end with the hard one, at the latest.
func clamp(soft *uint64, hard uint64) {
	if hard != 0 && *soft > hard {
		*soft = hard
	}
}

// refuse notes that a state cannot be an association. Policies go on to protect by its
// bundle, which drops what it is for.
func (t *tables) refuse(a *association, why string) {
	a.refused = true
	a.wipe()
	t.log.Error("an XFRM state is refused; packets that policies protect by it are dropped", append(a.about(), "because", why)...)
}
