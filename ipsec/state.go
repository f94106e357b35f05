package ipsec

import "encoding/binary"

// State is the state of an SA that another process continues: its numbers and its anti-replay window.
type State struct {
	Sequence uint64 `json:"sequence"`         // see SA.LastSequence
	Limit    uint64 `json:"limit,omitempty"`  // see SA.Limit; 0: none
	Packets  uint64 `json:"packets"`          // use in the units of Limits, by all processes
	Bytes    uint64 `json:"bytes"`            // the same
	Window   []byte `json:"window,omitempty"` // words of the window, little-endian
}

// State returns the state, without the use. No worker may use the SA.
func (s *SA) State() State {
	st := State{Sequence: s.LastSequence(), Limit: s.limit.Load()}
	for i := range s.replay.ring {
		st.Window = binary.LittleEndian.AppendUint64(st.Window, s.replay.ring[i].Load())
	}
	return st
}

// Continue makes the SA continue from a state, its numbers and its window. A window of another size treats
// all numbers up to the highest as received. Numbers never go back. No worker may use the SA yet.
func (s *SA) Continue(st State) {
	s.Skip(st.Sequence)
	if s.direction == Out {
		return
	}
	w := &s.replay
	// Earlier versions left all words 0 without a window.
	if w.size == 0 || len(st.Window) != 8*len(w.ring) || w.highest() != st.Sequence {
		return
	}
	for i := range w.ring {
		w.ring[i].Store(binary.LittleEndian.Uint64(st.Window[8*i:]))
	}
}
