package trie

import (
	"fmt"
	"math"
	"runtime"
	"sync/atomic"

	"github.com/warproute/warproute/internal/ordered"
)

// Image is the memory of a table: its words, and the writer's accounting of nodes.
//
// A runtime cleanup unmaps the words; a slice of them does not keep the image alive. Readers
// call runtime.KeepAlive after their last read.
//
// The writer stores reachable words one at a time. It stores the words that make others
// reachable last, and atomically.
type Image struct {
	words []uint32 // all mapped words; untouched pages use no memory

	// For the writer only.
	end     uint32   // first word after all nodes ever allocated
	uses    []uint32 // per node: routes that end in it, and nodes below it
	retired []uint32 // unreferenced nodes that readers can still be in
	free    []uint32 // nodes without readers

	followers *followers // followers of the table; nil before it is the image of a table
}

// reuseBatch is the number of nodes freed together, so that readers seldom retry.
const reuseBatch = 256

// maxDepth is the maximum number of nodes of one route: an IPv6 host route of a VRF.
const maxDepth = 128 / NodeBits

func newImage() (*Image, error) {
	words, mem, err := mapWords()
	if err != nil {
		return nil, err
	}
	im := &Image{words: words, end: FirstNode}
	im.unmapWhenUnused(mem)
	return im, nil
}

// used returns the root, the header and all nodes ever allocated. For the writer only.
func (im *Image) used() []uint32 { return im.words[:im.end] }

// Generation returns the seqlock's generation. Results of lookups are invalid if it
// changed between a read before them and a read after them.
func (im *Image) Generation() uint32 {
	n := atomic.LoadUint32(&im.words[Generation])
	runtime.KeepAlive(im)
	return n
}

// Default returns the default route's word.
func (im *Image) Default() uint32 { return atomic.LoadUint32(&im.words[Default]) }

// walk returns the final word of a lookup of k in a VRF.
func (im *Image) walk(k *Key, vrf int) uint32 {
	at, resolved := k.start(vrf)
	for {
		generation := im.Generation()
		word := atomic.LoadUint32(&im.words[at])
		// References in a reused node can lead beyond the end of the address.
		for i := resolved / 8; isReference(word) && i < len(k); i++ {
			word = atomic.LoadUint32(&im.words[node(word)+uint32(k[i])])
		}
		if word == 0 && vrf == 0 {
			word = im.Default()
		}
		if im.Generation() == generation {
			return word
		}
	}
}

// set stores word for every address in a prefix of a VRF except those with a longer route. word
// is the prefix's own route, or after a delete that of the next shorter prefix. delta is
// the change in the number of routes.
func (im *Image) set(vrf int, k *Key, bits int, word uint32, delta int) {
	at, resolved := k.start(vrf)
	switch {
	case bits == 0 && vrf == 0:
		// A lookup reads this word and its final word at different times. The new
		// generations make it retry instead of combining old and new words.
		im.nextGeneration()
		im.storeWord(Default, word)
		im.nextGeneration()
	case bits <= resolved:
		im.fill(at, 1<<(resolved-bits), bits, word)
	default:
		im.below(at, k, resolved, bits, word, delta)
	}
}

// below applies set to the node in slot, which resolves NodeBits bits of k after the first resolved ones.
// It allocates a missing node, and replaces an unused node by a route.
func (im *Image) below(slot uint32, k *Key, resolved, bits int, word uint32, delta int) {
	old := im.words[slot]
	n := node(old)
	if !isReference(old) {
		n = im.newNode(old)
	}
	at, rest := n+uint32(k[resolved/8]), resolved+NodeBits-bits
	uses := &im.uses[nodeCount(n)]
	if rest >= 0 {
		im.fill(at, 1<<rest, bits, word)
		*uses += uint32(delta)
	} else {
		was := isReference(im.words[at])
		im.below(at, k, resolved+NodeBits, bits, word, delta)
		uses = &im.uses[nodeCount(n)] // append can move uses
		switch is := isReference(im.words[at]); {
		case is && !was:
			*uses++
		case was && !is:
			*uses--
		}
	}
	switch {
	case *uses == 0:
		// All words hold the same route, of at most the resolved bits.
		im.storeWord(slot, im.words[n])
		im.retired = append(im.retired, n)
	case !isReference(old):
		im.storeWord(slot, Reference|n)
	}
}

// fill stores word in n words and in the nodes below them, except in words of routes
// longer than bits. Readers see the old or the new word.
func (im *Image) fill(at, n uint32, bits int, word uint32) {
	longer := route(bits+1, 0)
	for end := at + n; at < end; {
		switch old := im.words[at]; {
		case isReference(old):
			im.fill(node(old), NodeWords, bits, word)
			at++
		case old >= longer:
			at++
		default:
			replaced := uint32(ordered.ReplaceBelow(im.words[at:end], longer, word))
			im.notify(at, replaced, word)
			at += replaced
		}
	}
}

// storeWord atomically stores a reachable word, for lookups and followers.
func (im *Image) storeWord(at, word uint32) {
	atomic.StoreUint32(&im.words[at], word)
	im.notify(at, 1, word)
}

// retire retires the nodes that a word refers to, which no lookup reaches any longer.
func (im *Image) retire(word uint32) {
	if !isReference(word) {
		return
	}
	n := node(word)
	for _, below := range im.words[n : n+NodeWords] {
		im.retire(below)
	}
	im.uses[nodeCount(n)] = 0
	im.retired = append(im.retired, n)
}

// room returns an error if there are too few free nodes for a route to a prefix of a VRF.
func (im *Image) room(vrf int, k *Key, bits int) error {
	left := len(im.free) + len(im.retired) + (len(im.words)-int(im.end))/Pitch
	if left >= maxDepth {
		return nil
	}
	at, resolved := k.start(vrf)
	word := im.words[at]
	for resolved < bits && isReference(word) {
		word = im.words[node(word)+uint32(k[resolved/8])]
		resolved += NodeBits
	}
	if missing := (bits - resolved + NodeBits - 1) / NodeBits; missing > left {
		return fmt.Errorf("the table is full: the route needs %d more nodes; %d of %d are free", missing, left, nodeCount(uint32(len(im.words))))
	}
	return nil
}

// newNode returns an unreferenced node filled with word.
func (im *Image) newNode(word uint32) uint32 {
	full := len(im.words)-int(im.end) < Pitch
	if len(im.free) == 0 && (len(im.retired) >= reuseBatch || full) {
		im.nextGeneration()
	}
	var n uint32
	if last := len(im.free) - 1; last >= 0 {
		n, im.free = im.free[last], im.free[:last]
	} else {
		n, im.end = im.end, im.end+Pitch
		im.uses = append(im.uses, 0)
	}
	ordered.ReplaceBelow(im.words[n:n+NodeWords], math.MaxUint32, word)
	im.notify(n, NodeWords, word)
	return n
}

// nextGeneration increments the generation and frees the retired nodes. The load orders
// the increment before later stores into these nodes: on every processor, an atomic load
// follows an earlier atomic store to its word, and later stores follow the load.
func (im *Image) nextGeneration() {
	im.storeWord(Generation, im.words[Generation]+1)
	_ = im.Generation()
	im.free, im.retired = append(im.free, im.retired...), im.retired[:0]
}

// empty returns the memory of a table without routes to the kernel. Reachable words are
// already 0, as in zero-filled pages.
func (im *Image) empty() {
	im.nextGeneration()
	im.free, im.retired, im.uses, im.end = nil, nil, nil, FirstNode
	im.discard()
}

// NodesInUse returns the number of referenced nodes. For the writer only.
func (im *Image) NodesInUse() int { return nodeCount(im.end) - len(im.free) - len(im.retired) }

// nodeCount returns the number of nodes before a word.
func nodeCount(at uint32) int { return int(at-FirstNode) / Pitch }

// notify reports n words of the same value, stored from at on, to the followers.
func (im *Image) notify(at, n, word uint32) {
	if im.followers != nil && n > 0 {
		im.followers.patch(Patch{At: at, Count: n, Word: word})
	}
}
