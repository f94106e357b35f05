package gpu

import (
	"fmt"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/lookup/trie"
)

// Memory for the images of both families, for as long as the device has room:
// IPv4 with a million groups and IPv6 with two.
const (
	wordsIPv4 = trie.Groups + 1<<20*trie.Pitch
	wordsIPv6 = trie.Groups + 2<<20*trie.Pitch
	// An image takes at most this share of the memory that is free at first.
	imageShare = 16
)

// makeTables allocates the copy of the base, fills it, and has it follow. It runs
// where the context is current.
func (d *Device) makeTables() error {
	t := &tables{health: &d.health}
	words := d.base.Words()
	var err error
	for a, w := range map[fib.Array]struct {
		bytes []byte
		word  uint32
	}{
		fib.NextHops: {bytesOf(words.NextHops), 8}, fib.Groups: {bytesOf(words.Groups), 4},
		fib.Adjacencies: {bytesOf(words.Adjacencies), 8}, fib.Ports: {bytesOf(words.Ports), 8},
		fib.ReversePaths: {bytesOf(words.ReversePaths), 4},
	} {
		t.arrays[a].bytes = w.word
		if t.arrays[a].at, err = d.upload(w.bytes); err != nil {
			return err
		}
	}
	repair := make([]uint32, batch.MaxPorts/32)
	for port, is := range d.options.Repair {
		if is {
			repair[port/32] |= 1 << (port % 32)
		}
	}
	repairAt, err := d.upload(bytesOf(repair))
	if err != nil {
		return err
	}
	if t.turns.at, err = d.upload(make([]byte, 256)); err != nil {
		return err
	}
	rootMemory, err := d.ctx.Alloc(2 * 8)
	if err != nil {
		return err
	}
	d.closers = append(d.closers, rootMemory.Close)
	roots := rootMemory.Ptr()
	d.pointers = tablePointers{
		IPv4: roots, IPv6: roots.Add(8), NextHops: t.arrays[fib.NextHops].at, Groups: t.arrays[fib.Groups].at,
		Adjacencies: t.arrays[fib.Adjacencies].at, Ports: t.arrays[fib.Ports].at, ReversePaths: t.arrays[fib.ReversePaths].at,
		Turns: t.turns.at, Repair: repairAt, Seed: d.base.Seed,
	}
	free, _, err := d.ctx.MemoryInfo()
	if err != nil {
		return err
	}
	var first []uint64                   // addresses of the images
	empty := make([]byte, 4*trie.Groups) // root and header of an image without routes
	for i, words := range []int{wordsIPv4, wordsIPv6} {
		im := &t.images[i]
		im.tables, im.family, im.root = t, []string{"IPv4", "IPv6"}[i], roots.Add(8*i)
		for k := range im.places {
			if im.places[k], err = d.newPlace(min(words, int(free/imageShare/4)), empty); err != nil {
				return fmt.Errorf("make room for the %s table: %w", im.family, err)
			}
		}
		first = append(first, uint64(im.places[0].at))
	}
	if err := rootMemory.Write(0, bytesOf(first)); err != nil {
		return err
	}
	return d.follow(t)
}

// upload copies bytes to memory of the device.
func (d *Device) upload(b []byte) (cuda.DevicePtr, error) {
	m, err := d.ctx.Alloc(len(b))
	if err != nil {
		return 0, err
	}
	d.closers = append(d.closers, m.Close)
	return m.Ptr(), m.Write(0, b)
}

// newPlace returns a place for an image of so many words, which begins with empty.
func (d *Device) newPlace(words int, empty []byte) (imagePlace, error) {
	m, err := d.ctx.Alloc(4 * words)
	if err != nil {
		return imagePlace{}, err
	}
	d.closers = append(d.closers, m.Close)
	p := imagePlace{at: m.Ptr(), words: words, write: func(w []uint32) error {
		return d.ctx.Do(func() error { return m.Write(0, bytesOf(w)) })
	}}
	return p, m.Write(0, empty)
}

// follow starts the patcher and brings the tables.
func (d *Device) follow(t *tables) error {
	made, err := newCounter()
	if err != nil {
		return err
	}
	d.closers = append(d.closers, made.close)
	host, err := d.ctx.Register(made.mem)
	if err != nil {
		return err
	}
	d.closers = append(d.closers, host.Close)
	list, err := d.ctx.Alloc(maxPatches * patchBytes)
	if err != nil {
		return err
	}
	d.closers = append(d.closers, list.Close)
	_, greatest, err := d.ctx.StreamPriorities()
	if err != nil {
		return err
	}
	stream, err := d.ctx.NewStream(greatest)
	if err != nil {
		return err
	}
	d.closers = append(d.closers, stream.Close)
	args := &struct {
		List cuda.DevicePtr
		N    uint32
		Made cuda.DevicePtr
		Sum  uint64
	}{List: list.Ptr(), Made: host.Ptr()}
	kernel, err := cuda.NewLaunch(d.entries.patch, args)
	if err != nil {
		return err
	}
	kernel.Grid, kernel.Block = cuda.Dim{X: 1}, cuda.Dim{X: threads}
	apply := func(batch []patch) error {
		n := copy(made.patches(), batch)
		args.N, args.Sum = uint32(n), args.Sum+uint64(n)
		if err := stream.CopyToDevice(list.Ptr(), host, counterBytes, n*patchBytes); err != nil {
			return err
		}
		if err := kernel.Enqueue(stream); err != nil {
			return err
		}
		for start := time.Now(); made.load() != args.Sum; {
			if time.Since(start) > patchTimeout {
				_, err := stream.Done()
				return fmt.Errorf("the GPU did not take %d changes of its tables within %v (%v)", n, patchTimeout, err)
			}
			time.Sleep(10 * time.Microsecond)
		}
		return nil
	}
	if t.patcher, err = newPatcher(&d.health, d.ctx.Bind, apply, d.base.Retry); err != nil {
		return err
	}
	d.tables = t
	d.stops = append(d.stops, func(by time.Time) error { return waitUntil(by, stream.Done) })
	d.follows = []func(){d.base.Follow(t), d.base.IPv4.Follow(&t.images[0]), d.base.IPv6.Follow(&t.images[1])}
	t.patcher.settle()
	return d.health.err()
}

// patchTimeout is long: a change of a short prefix is of millions of words.
const patchTimeout = 2 * time.Second
