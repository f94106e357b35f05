package fib

import "slices"

// Array names one of the base's arrays of words.
type Array uint8

const (
	NextHops     Array = iota // 64-bit words
	Groups                    // 32-bit words
	Adjacencies               // 64-bit
	Ports                     // 64-bit
	ReversePaths              // 32-bit

	NumArrays = iota
)

// A Follower keeps a copy of the arrays elsewhere, as on a device. Its methods are
// called by the goroutine that changes the base, in the order of the changes; the
// tables have followers of their own (trie.Follower), called by the same goroutine.
type Follower interface {
	// Word says that a word of an array has changed.
	Word(a Array, index uint32, word uint64)
	// Reuse says that a number which was freed begins another life: the words that
	// it names, which change after this call, have nothing to do with what a
	// reader of the copy may know of it. A reader that began before must look again.
	Reuse()
	// Flush says that a batch of changes is complete.
	Flush()
}

// Follow has a follower told of every change from now on, until end is called. A
// base has any number of followers. Follow and end are called by whoever changes
// the base, with Words as they are.
func (f *FIB) Follow(follower Follower) (end func()) {
	entry := &follower
	f.followers = append(f.followers, entry)
	return func() {
		f.followers = slices.DeleteFunc(f.followers, func(e *Follower) bool { return e == entry })
	}
}

// followers are told one after another.
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
