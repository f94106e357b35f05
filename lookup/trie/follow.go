package trie

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/warproute/warproute/lookup"
)

// Patch is a store of Word in Count words of an image from index At on.
type Patch struct{ At, Count, Word uint32 }

// A Follower keeps a copy of a table's image, for example on a device. The goroutine
// that changes the table calls its methods, in the order of the changes.
//
// Readers of the copy have the guarantees of the original if patches are applied in
// order as stores of whole words: a reader that compares the word at Generation before
// and after its lookups sees the old or the new route.
type Follower interface {
	// Replace replaces the whole copy by words, which stay mapped until the next Replace is
	// called or following ends. Words beyond them may keep any value: a lookup reaches a
	// node only after patches have filled all of it. The table stores every word before it
	// calls Patch.
	Replace(words []uint32)
	// Patch applies a change. A patch beyond the end of the copy extends it.
	Patch(Patch)
}

// Follow reports the current table and every later change to f until end is called. A
// table has any number of followers. Follow and end must be called on the goroutine that
// changes the table.
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

// WalkCopy is Table.Walk for a copy whose words read returns, in a VRF or 0, the table itself. The result is invalid
// if the copy's generation changed during the call.
func WalkCopy(vrf int, addr netip.Addr, read func(index uint32) (uint32, error)) (bits int, nh lookup.NextHopID, err error) {
	k := keyOf(addr)
	at, resolved := k.start(vrf)
	word, err := read(at)
	for i := resolved / 8; err == nil && isReference(word); i++ {
		if i == addr.BitLen()/8 {
			return 0, lookup.Miss, fmt.Errorf("the copy has references beyond the end of %v", addr)
		}
		word, err = read(node(word) + uint32(k[i]))
	}
	if err == nil && word == 0 && vrf == 0 {
		word, err = read(Default)
	}
	return length(word), nextHop(word), err
}

// followers are the followers of a table, in the order of Follow calls.
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
