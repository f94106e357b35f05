package fib

// Array names one of the base's arrays of words.
type Array uint8

const (
	NextHops    Array = iota // 64-bit words
	Groups                   // 32-bit words
	Adjacencies              // 64-bit
	Ports                    // 64-bit
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

// Follow has follower told of every change from now on; nil ends it. It is called
// by whoever changes the base, with Words as they are.
func (f *FIB) Follow(follower Follower) {
	if follower == nil {
		follower = nobody{}
	}
	f.follower = follower
}

type nobody struct{}

func (nobody) Word(Array, uint32, uint64) {}
func (nobody) Reuse()                     {}
func (nobody) Flush()                     {}
