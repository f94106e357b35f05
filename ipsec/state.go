package ipsec

import (
	"encoding/binary"
	"math/bits"
)

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
	if s.direction == In {
		st.Window = s.replay.appendWords(nil)
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
	if w := &s.replay; w.size > 0 && w.highest() == st.Sequence { // earlier versions left all words 0 without a window
		w.continueFrom(st.Window)
	}
}

// appendWords appends the words of the newest blocks in the order of the ring, that of the head among them. No worker may use the window.
func (w *window) appendWords(b []byte) []byte {
	newest := w.word(w.newest.Load())
	for i := range w.ring {
		word := &w.ring[i]
		if word == newest {
			word = &w.head
		}
		b = binary.LittleEndian.AppendUint64(b, word.Load())
	}
	return b
}

// continueFrom continues from the words of a window of the same size with the same highest number. Others change nothing.
func (w *window) continueFrom(words []byte) {
	if len(words) != 8*len(w.ring) {
		return
	}
	block := w.newest.Load()
	word := func(i uint64) uint64 { return binary.LittleEndian.Uint64(words[8*i:]) }
	head := word(block % uint64(len(w.ring)))
	if age(head, block) != 0 || bits.Len32(uint32(head)) != bits.Len32(uint32(w.head.Load())) {
		return
	}
	for i := range w.ring {
		w.ring[i].Store(word(uint64(i)))
	}
	w.continueAt(block, head)
}
