package xfrm

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/warproute/warproute/ipsec"
)

// association is a state and its SA in the gateway.
type association struct {
	*state
	sa      *ipsec.SA // nil if refused, larval or waiting
	refused bool
	waits   bool   // direction unknown
	gap     uint64 // outbound sequence numbers to skip beyond Linux's
	pushed  pushed
}

// logAttrs returns the log attributes of the association.
func (a *association) logAttrs() []any {
	return []any{"sa", fmt.Sprintf("SPI %s from %v to %v, reqid %d", spiText(a.id.spi), a.src, a.id.dst, a.reqid)}
}

// setState adds or changes a state, and takes ownership of its keys.
func (t *tables) setState(s *state) {
	s.keys = s.fingerprint(t.seed)
	s.nonceID = s.nonces(t.seed)
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

// deleteState deletes a state and its SA. Keys are wiped and the last sequence number is
// recorded once no worker can use the SA.
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
	nonceID, numbers := a.nonceID, a.numbers(s.Config().Direction)
	t.hooks.Quiescent(func() {
		last := s.LastSequence()
		s.Zero()
		t.quiesced.put(func() { t.recordDeleted(deletedSA{nonceID, numbers, last}) })
	})
}

// add adds an SA to the gateway.
func (t *tables) add(a *association) {
	if err := t.gateway.AddStandby(a.sa); err != nil {
		t.refuse(a, err.Error())
		a.sa.Zero() // not yet visible to workers
		a.sa = nil
		return
	}
	if a.out() {
		id := a.tunnel()
		t.outbound[id] = append(t.outbound[id], a)
		t.selectOutbound(id)
	}
}

// withdraw removes an SA from the gateway, after selecting the next outbound SA.
func (t *tables) withdraw(a *association) {
	if a.out() {
		id := a.tunnel()
		t.outbound[id] = slices.DeleteFunc(t.outbound[id], func(x *association) bool { return x == a })
		t.selectOutbound(id)
	}
	t.gateway.Remove(a.sa)
}

// selectOutbound sets the outbound SA of a tunnel: the one with the SPI in the policy's template, or
// else the newest. Key daemons install a new SA before the peer does, and change the policy
// when it can be used.
func (t *tables) selectOutbound(id tunnelID) {
	all := t.outbound[id]
	if len(all) == 0 {
		delete(t.outbound, id)
		return
	}
	chosen := all[len(all)-1]
	for _, a := range all {
		if a.id.spi == t.preferredSPI[id] {
			chosen = a
		}
	}
	t.gateway.SetCurrent(chosen.sa)
}

// out reports whether the SA is outbound. It must be in the gateway.
func (a *association) out() bool { return a.sa.Config().Direction == ipsec.Out }

// install adds the SA of a state to the gateway if its direction is known and its key is free.
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
		t.log.Warn("direction of XFRM state unknown, waiting for a policy that names it", a.logAttrs()...)
		return
	}
	if other, ok := t.memory.wait(a); ok { // installed after the other's last number
		if t.states[other] != nil {
			t.log.Error("xfrm state would reuse nonces, waiting until another is deleted",
				append(a.logAttrs(), "reason", fmt.Sprintf("SPI %s to %v has the same key", spiText(other.spi), other.dst))...)
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
		first = max(first, first+a.gap) // without wrapping around
	}
	s.Skip(first)
	s.SetPreviousUse(a.usedBefore())
	a.sa = s
	t.changed = true
	if t.add(a); a.sa != nil {
		t.memory.claim(a)
	}
}

// installDecided installs waiting SAs whose direction is known now, oldest first.
func (t *tables) installDecided() {
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

// minWindow is the minimum replay window of inbound SAs that have one.
const minWindow = 1024

// config returns the SA configuration of a state.
func (t *tables) config(a *association, direction ipsec.Direction) ipsec.Config {
	tunnel := a.tunnel().String()
	c := ipsec.Config{
		Name: tunnel, SPI: a.id.spi, Direction: direction,
		Src: a.src, Dst: a.id.dst,
		Suite: a.suite, Key: a.key, AuthKey: a.authKey, ESN: a.esn,
		Tunnel: t.gateway.Tunnel(tunnel), IfID: a.ifID,
		DF: a.df, Lifetime: a.limits, Clock: &t.gateway.Clock, Nonces: &t.gateway.Nonces,
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

// usedBefore returns the use of the state that Linux counted.
func (a *association) usedBefore() ipsec.Limits {
	u := ipsec.Limits{Packets: a.packets, Bytes: a.bytes}
	if a.added != 0 {
		u.Age = max(0, time.Since(time.Unix(int64(a.added), 0)))
	}
	return u
}

// clamp limits a soft limit to the hard one.
func clamp(soft *uint64, hard uint64) {
	if hard != 0 && *soft > hard {
		*soft = hard
	}
}

// refuse marks a state as unsupported. Packets of its policies are dropped.
func (t *tables) refuse(a *association, reason string) {
	a.refused = true
	a.wipe()
	t.log.Error("xfrm state refused, packets of its policies are dropped", append(a.logAttrs(), "reason", reason)...)
}
