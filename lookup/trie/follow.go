package trie

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/warproute/warproute/lookup"
)

// Patch says that Count words of an image from index At on now hold Word.
type Patch struct{ At, Count, Word uint32 }

// A Follower keeps a copy of a table's image elsewhere, as on a device. Its
// methods are called by the goroutine that changes the table, in order.
//
// A copy to which the patches were applied one after another, each as stores of
// whole words, gives its readers what the original gives: a reader that compares
// the word at Reuses before and after sees the old or the new route.
type Follower interface {
	// Replace says that the image is another one, with these words. They are the
	// table's own, to be copied before Replace returns; those beyond are 0.
	Replace(words []uint32)
	// Patch says what has changed. A patch about words beyond those of Replace
	// lets the image grow.
	Patch(Patch)
}

// Follow has f told of the table as it is and of every change from now on, until
// end is called. A table has any number of followers. Follow and end are called by
// the goroutine that changes the table.
func (t *Table) Follow(f Follower) (end func()) {
	entry := &f
	t.followers = append(t.followers, entry)
	if im := t.image.Load(); im != nil {
		f.Replace(im.used())
	}
	return func() {
		t.followers = slices.DeleteFunc(t.followers, func(e *Follower) bool { return e == entry })
	}
}

// WalkCopy returns what Table.Walk does, of a copy whose words read tells. The answer is
// void where the word at Reuses, or what stands for it there, has changed meanwhile.
func WalkCopy(addr netip.Addr, read func(index uint32) (uint32, error)) (bits int, nh lookup.NextHop, err error) {
	k := keyOf(addr)
	word, err := read(k.root())
	for i := RootBits / 8; err == nil && isReference(word); i++ {
		if i == addr.BitLen()/8 {
			return 0, lookup.Miss, fmt.Errorf("the copy leads beyond the end of %v", addr)
		}
		word, err = read(group(word) + uint32(k[i]))
	}
	if err == nil && word == 0 {
		word, err = read(Default)
	}
	return length(word), nextHop(word), err
}

// followers are told one after another.
type followers []*Follower

func (fs followers) replace(words []uint32) {
	for _, f := range fs {
		(*f).Replace(words)
	}
}

func (fs followers) patch(p Patch) {
	for _, f := range fs {
		(*f).Patch(p)
	}
}
