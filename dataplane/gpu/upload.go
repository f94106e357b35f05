package gpu

import (
	"fmt"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/lookup/trie"
)

// Words of an image buffer, if the device has the memory: 1 Mi nodes for IPv4 and 2 Mi for IPv6.
const (
	wordsIPv4 = trie.FirstNode + 1<<20*trie.Pitch
	wordsIPv6 = trie.FirstNode + 2<<20*trie.Pitch
	// imageShare limits an image buffer to a fraction of the free memory.
	imageShare = 16
)

// makeTables allocates the copy of the FIB, fills it, and follows the FIB. The context must be current.
func (d *Device) makeTables() error {
	t := &tables{state: &d.state}
	words := d.fib.Words()
	var err error
	for a, w := range map[fib.Array]struct {
		bytes []byte
		word  uint32
	}{
		fib.NextHops: {bytesOf(words.NextHops), 8}, fib.Groups: {bytesOf(words.Groups), 4},
		fib.Adjacencies: {bytesOf(words.Adjacencies), 8}, fib.Ports: {bytesOf(words.Ports), 8},
		fib.Ingress: {bytesOf(words.Ingress), 4},
	} {
		t.arrays[a].bytes = w.word
		if t.arrays[a].at, err = d.upload(w.bytes); err != nil {
			return err
		}
	}
	partialChecksums := make([]uint32, batch.MaxPorts/32)
	for port, partial := range d.options.PartialChecksums {
		if partial {
			partialChecksums[port/32] |= 1 << (port % 32)
		}
	}
	partialAt, err := d.upload(bytesOf(partialChecksums))
	if err != nil {
		return err
	}
	if t.generation.at, err = d.upload(make([]byte, 256)); err != nil {
		return err
	}
	pointerMemory, err := d.alloc(2 * 8)
	if err != nil {
		return err
	}
	imagePointers := pointerMemory.Ptr()
	d.pointers = tablePointers{
		IPv4: imagePointers, IPv6: imagePointers.Add(8), NextHops: t.arrays[fib.NextHops].at, Groups: t.arrays[fib.Groups].at,
		Adjacencies: t.arrays[fib.Adjacencies].at, Ports: t.arrays[fib.Ports].at, Ingress: t.arrays[fib.Ingress].at,
		Generation: t.generation.at, PartialChecksums: partialAt, Seed: d.fib.Seed,
	}
	free, _, err := d.ctx.MemoryInfo()
	if err != nil {
		return err
	}
	var first []uint64 // addresses of the first buffers
	for i, words := range []int{wordsIPv4, wordsIPv6} {
		im := &t.images[i]
		im.tables, im.family, im.pointerAt = t, []string{"IPv4", "IPv6"}[i], imagePointers.Add(8*i)
		for k := range im.buffers {
			if im.buffers[k], err = d.newBuffer(min(words, int(free/imageShare/4))); err != nil {
				return fmt.Errorf("allocate the %s table: %w", im.family, err)
			}
			d.closers = append(d.closers, func() error { return im.buffers[k].free() })
			if err := im.buffers[k].write(make([]uint32, trie.FirstNode)); err != nil { // root and header of an image without routes
				return err
			}
		}
		first = append(first, uint64(im.buffers[0].at))
	}
	if err := pointerMemory.Write(0, bytesOf(first)); err != nil {
		return err
	}
	return d.follow(t)
}

// upload copies bytes to new device memory.
func (d *Device) upload(b []byte) (cuda.DevicePtr, error) {
	m, err := d.alloc(len(b))
	if err != nil {
		return 0, err
	}
	return m.Ptr(), m.Write(0, b)
}

// newBuffer returns an image buffer of a number of words, with any content. The context must be current.
func (d *Device) newBuffer(words int) (imageBuffer, error) {
	m, err := d.ctx.Alloc(4 * words)
	if err != nil {
		return imageBuffer{}, err
	}
	return imageBuffer{
		at: m.Ptr(), words: words, free: m.Close,
		write: func(w []uint32) error { return d.ctx.Do(func() error { return m.Write(0, bytesOf(w)) }) },
	}, nil
}

// follow starts the patcher, copies the tables, and follows their changes.
func (d *Device) follow(t *tables) error {
	dma, err := d.newPatchDMA()
	if err != nil {
		return err
	}
	// MarkChanged makes workers retry pending packets again when the device has the neighbor: a retry before
	// would find it unresolved there.
	if t.patcher, err = newPatcher(&d.state, d.ctx.Bind, dma.apply, d.fib.MarkChanged); err != nil {
		return err
	}
	d.tables = t
	endFIB := d.fib.Follow(t)
	endIPv4 := d.fib.IPv4.Follow(&t.images[0]) // calls Replace, which copies the table
	endIPv6 := d.fib.IPv6.Follow(&t.images[1])
	d.unfollow = []func(){endFIB, endIPv4, endIPv6}
	t.patcher.drain()
	return d.state.err()
}
