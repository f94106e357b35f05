package xfrm

import (
	"fmt"
	"log/slog"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
)

// A process that replaces another one follows Linux's states before the other has stopped. Meanwhile its mirror is
// passive: it reports nothing to Linux, and no worker uses its SAs. Then the SAs continue from the numbers of the
// other process, which are newer than Linux's.

// StartPassive is like Start, and reports nothing to Linux until TakeOver.
func StartPassive(g *gateway.Gateway, workers int, hooks Hooks, log *slog.Logger) (*Mirror, error) {
	return start(g, workers, hooks, log, true)
}

// Suspend ends the reports to Linux, for a process that is about to hand over.
func (m *Mirror) Suspend() { m.Do(func() { m.passive = true }) }

// States returns the states of all SAs by an identification that is the same in every process. No worker runs.
func (m *Mirror) States() map[string]ipsec.State {
	all := map[string]ipsec.State{}
	m.Do(func() {
		for id, a := range m.states {
			if a.sa == nil {
				continue
			}
			used, st := a.sa.Stats(), a.sa.State()
			st.Packets, st.Bytes = a.packets+used.Packets, a.bytes+used.Bytes
			all[id.text(a.sa.Config().Direction)] = st
		}
	})
	return all
}

// TakeOver makes the SAs continue from the states of the process that has stopped, and starts the reports to Linux.
// Outbound SAs without a state skip as many numbers as at a restart, which Linux gets before they are used. No worker runs.
func (m *Mirror) TakeOver(states map[string]ipsec.State) (err error) {
	m.Do(func() {
		m.passive = false
		skipped := false
		for id, a := range m.states {
			if a.sa == nil {
				continue
			}
			direction := a.sa.Config().Direction
			st, ok := states[id.text(direction)]
			if !ok {
				if direction == ipsec.Out {
					first := a.sa.LastSequence()
					a.sa.Skip(max(first, first+restartGap))
					skipped = true
				}
				continue
			}
			a.sa.Continue(st)
			if st.Packets > a.packets || st.Bytes > a.bytes {
				a.packets, a.bytes = max(a.packets, st.Packets), max(a.bytes, st.Bytes)
				u := a.usedBefore()
				u.Age = 0 // counted by install
				a.sa.SetPreviousUse(u)
			}
			a.pushed.packets, a.pushed.sequence = ^uint64(0), st.Sequence // report the use with the next tick
		}
		if skipped {
			err = m.pushGaps()
		}
	})
	return err
}

// text identifies an SA.
func (id stateID) text(d ipsec.Direction) string {
	return fmt.Sprintf("%d/%d/%08x/%v/%v", d, id.protocol, id.spi, id.dst, id.mark)
}
