package trie

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

// Follow has f told of the table as it is and of every change from now on; nil
// ends it. A table has one follower.
func (t *Table) Follow(f Follower) {
	t.follower = f
	im := t.image.Load()
	if im == nil {
		return
	}
	im.follow = f
	if f != nil {
		f.Replace(im.Used())
	}
}
