package gpulookup

import (
	"context"
	"fmt"

	"github.com/warproute/warproute/cuda"
)

// limits measures copies, host reads and random reads alone.
func (b *bench) limits(ctx context.Context) (l Limits, err error) {
	w, in, out := b.loads[0], b.streams[0], b.streams[1]
	bytes := w.n * hopBytes // per direction; addresses have as many or more
	there := func() error { return in.CopyToDevice(b.addresses.Ptr(), w.addresses.HostMemory, 0, bytes) }
	back := func() error { return out.CopyToHost(b.hops.HostMemory, 0, b.results.Ptr(), bytes) }
	both := func() error {
		if err := there(); err != nil {
			return err
		}
		return back()
	}
	read, err := b.launchRead(w)
	if err != nil {
		return l, err
	}
	gather, reads, err := b.launchGather()
	if err != nil {
		return l, err
	}
	for _, m := range []struct {
		name  string
		pass  func() error
		units int // of a pass
		to    *float64
	}{
		{"copies to the device", there, bytes, &l.ToDevice},
		{"copies to the host", back, bytes, &l.ToHost},
		{"copies both ways", both, bytes, &l.BothWays},
		{"reads of the host's memory", read, bytes, &l.MappedRead},
		{"random reads", gather, reads, &l.RandomReads},
	} {
		took, err := b.clock(ctx, m.pass, b.gpu.wait)
		if err != nil {
			return l, fmt.Errorf("measure %s: %w", m.name, err)
		}
		*m.to = float64(m.units) / took / 1e9
	}
	return l, nil
}

// launchRead returns a launch of a kernel that reads one word per address of a workload from host
// memory.
func (b *bench) launchRead(w *workload) (func() error, error) {
	f, err := b.module.Function("read_words")
	if err != nil {
		return nil, err
	}
	p := &readParams{Words: w.addresses.Ptr(), N: uint32(w.n), Unused: b.results.Ptr()}
	return fill(b.gpu, f, p)
}

// launchGather returns a launch of a kernel that reads random root words, and their number.
func (b *bench) launchGather() (start func() error, reads int, err error) {
	f, err := b.module.Function("gather")
	if err != nil {
		return nil, 0, err
	}
	const times = 64
	blocks, err := b.everywhere(f, threads)
	if err != nil {
		return nil, 0, err
	}
	start, err = fill(b.gpu, f, &gatherParams{Image: b.image.Ptr(), Times: times, Unused: b.results.Ptr()})
	return start, int(blocks) * threads * times * each, err
}

// fill returns a launch of a kernel with as many blocks as fill the device.
func fill[T any](g *gpu, f *cuda.Function, params *T) (func() error, error) {
	blocks, err := g.everywhere(f, threads)
	if err != nil {
		return nil, err
	}
	launch, err := cuda.NewLaunch(f, params)
	if err != nil {
		return nil, err
	}
	launch.Grid.X, launch.Block.X = blocks, threads
	return func() error { return launch.Enqueue(g.streams[0]) }, nil
}
