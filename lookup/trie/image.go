package trie

import (
	"fmt"
	"runtime"
	"sync/atomic"
)

// Image is the words of a table, and what its writer has to know of them.
//
// They are mapped while the image is in use, which a slice of them does not show:
// whoever reads words keeps the image alive (runtime.KeepAlive) behind the last.
//
// Words that readers can reach are stored one by one; those that make others
// reachable are stored last, and atomically.
type Image struct {
	words []uint32 // as many as are mapped; untouched ones cost no memory

	// The writer's own.
	end    uint32   // the first word that was never a group's
	uses   []uint32 // by group: routes that end in it and groups below it
	retire []uint32 // groups that nothing refers to, but readers may still be in
	free   []uint32 // groups that no reader is in

	followers *followers // of the table; nil before it has the image
}

// reuseBatch groups are taken back together, so that readers seldom repeat a batch.
const reuseBatch = 256

// deepest is the most groups that one route needs: an IPv6 route to a host.
const deepest = (128 - RootBits) / GroupBits

func newImage() (*Image, error) {
	words, err := mapWords()
	if err != nil {
		return nil, err
	}
	im := &Image{words: words, end: Groups}
	im.unmapWhenUnused()
	return im, nil
}

// used are root, header, and all groups that ever were, for the writer.
func (im *Image) used() []uint32 { return im.words[:im.end] }

// Reuses is to be read before and after a batch of lookups; where the two
// differ, the answers are void.
func (im *Image) Reuses() uint32 {
	defer runtime.KeepAlive(im)
	return atomic.LoadUint32(&im.words[Reuses])
}

// Default is the word of the default route.
func (im *Image) Default() uint32 { return atomic.LoadUint32(&im.words[Default]) }

// walk returns the word that a lookup of k ends at.
func (im *Image) walk(k *Key) uint32 {
	for {
		reuses := im.Reuses()
		word := atomic.LoadUint32(&im.words[k.root()])
		// What a group of another life refers to may lead beyond the address.
		for i := RootBits / 8; isReference(word) && i < len(k); i++ {
			word = atomic.LoadUint32(&im.words[group(word)+uint32(k[i])])
		}
		if word == 0 {
			word = im.Default()
		}
		if im.Reuses() == reuses {
			return word
		}
	}
}

// set makes word the word of every address below a prefix that has no longer
// route: to insert or replace the prefix's route, or to put that of the next
// shorter prefix in its place. delta is what it adds to the number of routes.
func (im *Image) set(k *Key, bits int, word uint32, delta int) {
	switch {
	case bits == 0:
		// A lookup reads this word besides the one it ends at, sooner or later, with
		// other changes in between: no answer may be made of the old and the new.
		im.reuse()
		im.publish(Default, word)
		im.reuse()
	case bits <= RootBits:
		im.fill(k.root(), 1<<(RootBits-bits), bits, word)
	default:
		im.below(k.root(), k, RootBits, bits, word, delta)
	}
}

// below does the work of set in the group that slot refers to, which stands for
// the bits of k behind the first base. It makes a group where there is none, and
// puts the slot back to a route when the group's last user is gone.
func (im *Image) below(slot uint32, k *Key, base, bits int, word uint32, delta int) {
	held := im.words[slot]
	g := group(held)
	if !isReference(held) {
		g = im.newGroup(held)
	}
	at, rest := g+uint32(k[base/8]), base+GroupBits-bits
	uses := &im.uses[number(g)]
	if rest >= 0 {
		im.fill(at, 1<<rest, bits, word)
		*uses += uint32(delta)
	} else {
		was := isReference(im.words[at])
		im.below(at, k, base+GroupBits, bits, word, delta)
		uses = &im.uses[number(g)] // which may have moved
		switch is := isReference(im.words[at]); {
		case is && !was:
			*uses++
		case was && !is:
			*uses--
		}
	}
	switch {
	case *uses == 0:
		// No word here is of a route longer than base: all are of the one that
		// covers the group.
		im.publish(slot, im.words[g])
		im.retire = append(im.retire, g)
	case !isReference(held):
		im.publish(slot, Reference|g)
	}
}

// fill stores word in every one of n words that is not of a longer route than
// bits, in the groups below them too. A word is either old or new at any time, so
// plain stores do.
func (im *Image) fill(at, n uint32, bits int, word uint32) {
	run := im.words[at : at+n]
	begin := uint32(0) // of the words that were changed and not yet told
	for i, held := range run {
		if !isReference(held) && length(held) <= bits {
			run[i] = word
			continue
		}
		im.tell(at+begin, uint32(i)-begin, word)
		begin = uint32(i) + 1
		if isReference(held) {
			im.fill(group(held), Group, bits, word)
		}
	}
	im.tell(at+begin, n-begin, word)
}

// publish stores a word that makes others reachable.
func (im *Image) publish(at, word uint32) {
	atomic.StoreUint32(&im.words[at], word)
	im.tell(at, 1, word)
}

// room says whether there are groups for one more route below a prefix.
func (im *Image) room(k *Key, bits int) error {
	left := len(im.free) + len(im.retire) + (len(im.words)-int(im.end))/Pitch
	if left >= deepest {
		return nil
	}
	base, word := RootBits, im.words[k.root()]
	for base < bits && isReference(word) {
		word = im.words[group(word)+uint32(k[base/8])]
		base += GroupBits
	}
	if missing := (bits - base + GroupBits - 1) / GroupBits; missing > left {
		return fmt.Errorf("the table is full: %d more groups are needed and %d of %d are left", missing, left, number(uint32(len(im.words))))
	}
	return nil
}

// newGroup returns a group of which every word is word, and which nobody refers to.
func (im *Image) newGroup(word uint32) uint32 {
	full := len(im.words)-int(im.end) < Pitch
	if len(im.free) == 0 && (len(im.retire) >= reuseBatch || full) {
		im.reuse()
	}
	var g uint32
	if n := len(im.free); n > 0 {
		g, im.free = im.free[n-1], im.free[:n-1]
	} else {
		g, im.end = im.end, im.end+Pitch
		im.uses = append(im.uses, 0)
	}
	words := im.words[g : g+Group]
	for i := range words {
		words[i] = word
	}
	im.tell(g, Group, word)
	return g
}

// reuse lets the retired groups be used again. No store into them may overtake
// that of the count, which takes the load: what is stored after an atomic load
// stays behind it, and that load behind the store, on every processor.
func (im *Image) reuse() {
	im.publish(Reuses, im.words[Reuses]+1)
	_ = im.Reuses()
	im.free, im.retire = append(im.free, im.retire...), im.retire[:0]
}

// empty gives the memory of a table without routes back. All words that readers
// can reach are 0, as those of fresh memory are.
func (im *Image) empty() {
	im.reuse()
	im.free, im.retire, im.uses, im.end = nil, nil, nil, Groups
	im.discard()
}

// GroupsInUse is the number of groups that routes need; the writer may ask.
func (im *Image) GroupsInUse() int { return number(im.end) - len(im.free) - len(im.retire) }

// number counts groups.
func number(g uint32) int { return int(g-Groups) / Pitch }

func (im *Image) tell(at, n, word uint32) {
	if im.followers != nil && n > 0 {
		im.followers.patch(Patch{At: at, Count: n, Word: word})
	}
}
