package fib

import "slices"

// Array identifies one of the arrays of Words.
type Array uint8

const (
	NextHops    Array = iota // 64-bit words
	Groups                   // 32-bit words
	Adjacencies              // 64-bit
	Ports                    // 64-bit
	Ingress                  // 32-bit

	NumArrays = iota
)

// Follower maintains a copy of the arrays, for example on a device. The writer calls its methods
// in the order of the changes. The lookup tables have followers of their own (trie.Follower),
// called by the same goroutine.
type Follower interface {
	// Word reports a changed word.
	Word(a Array, index uint32, word uint64)
	// Reuse reports that a freed index is about to be reused: a reader of the copy that started
	// before must restart its lookup. Epochs protect readers of the original only: a copy lags, and may
	// still refer to an index that was freed before the reader started.
	Reuse()
	// Flush ends a batch of changes.
	Flush()
}

// Follow reports every change to a follower until end is called. The writer calls Follow and
// end; the follower copies Words first.
func (f *FIB) Follow(follower Follower) (end func()) {
	entry := &follower
	f.followers = append(f.followers, entry)
	return func() {
		f.followers = slices.DeleteFunc(f.followers, func(e *Follower) bool { return e == entry })
	}
}

// followers are called in order.
type followers []*Follower

func (fs followers) word(a Array, index uint32, word uint64) {
	for _, f := range fs {
		(*f).Word(a, index, word)
	}
}

func (fs followers) reuse() {
	for _, f := range fs {
		(*f).Reuse()
	}
}

func (fs followers) flush() {
	for _, f := range fs {
		(*f).Flush()
	}
}
