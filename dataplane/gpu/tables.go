package gpu

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/lookup/trie"
)

// tables is the device's copy of a FIB. It implements fib.Follower.
type tables struct {
	state      *deviceState
	patcher    *patcher
	generation word
	// queuedGeneration is generation.value for workers. It runs ahead of the device, whose patch may still
	// be queued: a worker refuses inline completions of an older generation.
	queuedGeneration atomic.Uint32
	arrays           [fib.NumArrays]array
	images           [2]image // IPv4, IPv6
}

// word is a word of device memory that only patches change.
type word struct {
	at    cuda.DevicePtr
	value uint64
}

// array is the copy of one of the FIB's arrays.
type array struct {
	at    cuda.DevicePtr
	bytes uint32 // of a word
}

// image is the copy of a lookup table's image, with two buffers: one is filled while lookups use the
// other. It implements trie.Follower.
type image struct {
	tables    *tables
	family    string
	pointerAt cuda.DevicePtr // where the device finds the address of the active buffer

	mu       sync.Mutex // guards the following fields against release and restore
	buffers  [2]imageBuffer
	active   int
	released bool     // the buffers are freed
	source   []uint32 // the table's words, of which the first end are in use
	end      int
}

// imageBuffer is device memory for the words of an image.
type imageBuffer struct {
	at    cuda.DevicePtr
	words int
	write func([]uint32) error // waits for completion
	free  func() error         // can be called twice
}

// Word implements fib.Follower. It raises the generation, because warps keep copies of the first words of each
// array (hot_entries in kernel/tables.h), and a lookup must not combine such a copy with a newer route. Warps keep
// no words of a trie, so Patch raises it only with the trie's own generation.
func (t *tables) Word(a fib.Array, index uint32, word uint64) {
	to := t.arrays[a]
	t.patcher.add(patch{At: to.at.Add(int(index) * int(to.bytes)), Word: word, Count: 1, Bytes: to.bytes})
	t.nextGeneration()
}

// Reuse implements fib.Follower.
func (t *tables) Reuse() { t.nextGeneration() }

// nextGeneration makes the device repeat lookups that are running.
func (t *tables) nextGeneration() {
	t.generation.value = (t.generation.value + 1) % (1 << 31)
	t.queuedGeneration.Store(uint32(t.generation.value))
	t.patcher.add(patch{At: t.generation.at, Word: t.generation.value, Count: 1, Bytes: 4})
}

// Flush implements fib.Follower.
func (t *tables) Flush() { t.patcher.flush() }

// Replace implements trie.Follower. It raises the generation, waits until the device has it (drain), and only then
// fills the inactive buffer: a lookup that still reads this buffer is repeated. Old words beyond the new ones stay in
// the buffer: no lookup reaches them before a patch, since a table fills a whole node before it stores the reference
// to it.
func (im *image) Replace(words []uint32) {
	im.mu.Lock()
	defer im.mu.Unlock()
	t := im.tables
	im.source, im.end = words, len(words)
	t.nextGeneration()
	if im.released {
		return
	}
	t.patcher.drain()
	next := 1 - im.active
	buffer := im.buffers[next]
	if len(words) > buffer.words {
		im.failFull(len(words))
		return
	}
	if !t.state.ok() {
		return
	}
	if err := buffer.write(words); err != nil {
		t.state.fail(err)
		return
	}
	im.active = next
	t.patcher.add(patch{At: im.pointerAt, Word: uint64(buffer.at), Count: 1, Bytes: 8})
	t.patcher.flush()
}

// Patch implements trie.Follower. The generation of one trie (trie.Generation) is not copied: its change raises that
// of all tables. Other words leave the generation as it is: every store of one leads lookups to the old or the new route.
func (im *image) Patch(p trie.Patch) {
	im.mu.Lock()
	defer im.mu.Unlock()
	buffer, end := im.buffers[im.active], int(p.At)+int(p.Count)
	im.end = max(im.end, end)
	switch {
	case p.At == trie.Generation:
		im.tables.nextGeneration()
	case im.released:
	case end > buffer.words:
		im.failFull(end)
	default:
		im.tables.patcher.add(patch{At: buffer.at.Add(4 * int(p.At)), Word: uint64(p.Word), Count: p.Count, Bytes: 4})
	}
}

// failFull takes the device out of use, since a table of a number of words exceeds its buffers.
func (im *image) failFull(words int) {
	im.tables.state.fail(&failure{CauseTableFull,
		fmt.Sprintf("%s table of %d MiB exceeds its %d MiB on the GPU", im.family, words>>18, im.buffers[0].words>>18)})
}
