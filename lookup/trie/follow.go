package trie

import "slices"

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
