package xfrm

import (
	"hash/maphash"
	"log/slog"
	"net/netip"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
)

// tables holds the states and policies of Linux and their SAs and rules in the gateway.
type tables struct {
	gateway *gateway.Gateway
	workers int
	hooks   Hooks
	log     *slog.Logger
	seed    maphash.Seed // of fingerprints

	states       map[stateID]*association
	outbound     map[tunnelID][]*association // installed, newest last
	preferredSPI map[tunnelID]uint32         // SPI in the template of the youngest policy
	memory       memory
	quiesced     quiesced

	policies      map[uint32]*policy // by index
	ages          uint64             // policies added so far
	acquirePolicy map[uint32]uint32  // index of the policy to send ACQUIREs for, by tunnel
	defaults      [sizeofDefault]byte

	gap            uint64 // for new states; see restartGap
	rules, changed bool   // rules must be set; the gateway changed
}

func newTables(g *gateway.Gateway, workers int, hooks Hooks, log *slog.Logger) *tables {
	if hooks.IsLocal == nil {
		hooks.IsLocal = func(netip.Addr) bool { return false }
	}
	if hooks.Quiescent == nil {
		hooks.Quiescent = func(f func()) { f() }
	}
	if hooks.Changed == nil {
		hooks.Changed = func() {}
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &tables{
		gateway: g, workers: workers, hooks: hooks, log: log, seed: maphash.MakeSeed(),
		states:        map[stateID]*association{},
		outbound:      map[tunnelID][]*association{},
		preferredSPI:  map[tunnelID]uint32{},
		policies:      map[uint32]*policy{},
		acquirePolicy: map[uint32]uint32{},
		memory:        newMemory(),
		quiesced:      quiesced{wake: make(chan struct{}, 1)},
	}
}

// compare synchronizes the tables with a dump, and takes ownership of its states.
func (t *tables) compare(d *dump) {
	there := make(map[stateID]bool, len(d.states))
	for i := len(d.states) - 1; i >= 0; i-- { // oldest first
		there[d.states[i].id] = true
		t.setState(d.states[i])
	}
	d.states = nil
	for id := range t.states {
		if !there[id] {
			t.deleteState(id)
		}
	}
	listed := make(map[uint32]bool, len(d.policies))
	for i := len(d.policies) - 1; i >= 0; i-- {
		listed[d.policies[i].index] = true
		t.setPolicy(d.policies[i])
	}
	for index := range t.policies {
		if !listed[index] {
			t.deletePolicy(index)
		}
	}
	t.rules = true // even if there are none
	t.setDefaults(d.defaults)
}

// commit ends a batch: it installs waiting SAs, sets the rules and reports changes.
func (t *tables) commit() {
	t.runQuiesced()
	if t.rules {
		t.installDecided()
		t.setRules()
		t.rules = false
	}
	t.retire()
	if t.changed {
		t.hooks.Changed()
		t.changed = false
	}
}

// direction returns the direction of a state, if known.
func (t *tables) direction(s *state) (d ipsec.Direction, ok bool) {
	switch s.direction {
	case directionIn:
		return ipsec.In, true
	case directionOut:
		return ipsec.Out, true
	}
	if src, dst := t.hooks.IsLocal(s.src), t.hooks.IsLocal(s.id.dst); src != dst {
		if dst {
			d = ipsec.In
		}
		return d, true
	}
	var named [2]bool // by direction
	for _, p := range t.policies {
		if p.protects == s.tunnel() {
			named[p.direction] = true
		}
	}
	if named[ipsec.In] {
		d = ipsec.In
	}
	return d, named[ipsec.In] != named[ipsec.Out]
}

// Values of attrDirection.
const (
	directionIn  = 1
	directionOut = 2
)

// tunnel returns the tunnel of a state.
func (s *state) tunnel() tunnelID { return tunnelID{s.src, s.id.dst, s.mode, s.reqid, s.ifID} }
