package gpu

import (
	"fmt"
	"sync/atomic"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/lookup/trie"
)

// tables is the device's copy of a forwarding base. Its methods are the followers
// of the base and of the tables in it.
type tables struct {
	health  *health
	patcher *patcher
	turns   word
	now     atomic.Uint32 // turns.value, which the device's follow
	arrays  [fib.NumArrays]array
	images  [2]image // IPv4, IPv6
}

// word is a word of the device's memory that only changes by patches.
type word struct {
	at    cuda.DevicePtr
	value uint64
}

// array is the copy of one of the base's arrays.
type array struct {
	at    cuda.DevicePtr
	bytes uint32 // of a word
}

// image is the copy of a lookup table's image. It has two places, so that another
// one can be brought while the first is read.
type image struct {
	tables *tables
	family string
	places [2]imagePlace
	active int
	root   cuda.DevicePtr // where the device finds the address of the active place
}

// imagePlace is memory of the device for the words of an image.
type imagePlace struct {
	at    cuda.DevicePtr
	words int
	write func([]uint32) error // waits until they are there
}

// Word is fib.Follower's. Warps have copies of the first words: a turn follows, so that
// none uses a copy of before with a route that was there after.
func (t *tables) Word(a fib.Array, index uint32, word uint64) {
	to := t.arrays[a]
	t.patcher.add(patch{At: to.at.Add(int(index) * int(to.bytes)), Word: word, Count: 1, Bytes: to.bytes})
	t.turn()
}

// Reuse is fib.Follower's.
func (t *tables) Reuse() { t.turn() }

// turn has lookups on the device that began before it look again.
func (t *tables) turn() {
	t.turns.value = (t.turns.value + 1) % (1 << 31)
	t.now.Store(uint32(t.turns.value))
	t.patcher.add(patch{At: t.turns.at, Word: t.turns.value, Count: 1, Bytes: 4})
}

// Flush is fib.Follower's.
func (t *tables) Flush() { t.patcher.flush() }

// Replace is trie.Follower's. The words go to the place that is not in use, which
// lookups may still be reading if it was in use a moment ago.
func (im *image) Replace(words []uint32) {
	t := im.tables
	t.turn()
	t.patcher.settle()
	next := 1 - im.active
	place := im.places[next]
	if len(words) > place.words {
		im.full(len(words))
		return
	}
	if !t.health.ok() {
		return
	}
	if err := place.write(words); err != nil {
		t.health.fail(err)
		return
	}
	im.active = next
	t.patcher.add(patch{At: im.root, Word: uint64(place.at), Count: 1, Bytes: 8})
	t.patcher.flush()
}

// Patch is trie.Follower's. A reuse in one table is a turn of all.
func (im *image) Patch(p trie.Patch) {
	place := im.places[im.active]
	switch end := int(p.At) + int(p.Count); {
	case p.At == trie.Reuses:
		im.tables.turn()
	case end > place.words:
		im.full(end)
	default:
		im.tables.patcher.add(patch{At: place.at.Add(4 * int(p.At)), Word: uint64(p.Word), Count: p.Count, Bytes: 4})
	}
}

func (im *image) full(words int) {
	im.tables.health.fail(fmt.Errorf("the %s table outgrew its %d MiB on the GPU: it has %d MiB", im.family, im.places[0].words>>18, words>>18))
}
