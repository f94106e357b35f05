package device

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/trie"
)

// launchSize is the number of addresses per launch: a multiple of the addresses per block and step,
// and large enough to amortize launch latency.
const launchSize = 64 << 10

// Table is a snapshot of a table on a device. It must not be used concurrently.
type Table struct {
	gpu    *GPU
	is4    bool
	empty  bool // no route was ever added, so there is no image
	stream *cuda.Stream
	launch *cuda.Launch
	params Params

	addresses, lowers, hops *Pinned // accessed in place by the kernel
}

// Load copies a table to the device, where it stays until Close. The table must not change during
// the call.
func (g *GPU) Load(from *trie.Table, is4 bool) (*Table, error) {
	t := &Table{gpu: g, is4: is4}
	err := g.Context.Do(func() error { return from.View(t.prepare) })
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Table) prepare(image []uint32) error {
	if t.empty = len(image) == 0; t.empty {
		return nil
	}
	module, err := t.gpu.Module(kernels)
	if err != nil {
		return err
	}
	name, bytes := Lookup6, AddressBytes6
	if t.is4 {
		name, bytes = Lookup4, AddressBytes4
	}
	kernel, err := module.Function(name)
	if err != nil {
		return err
	}
	if t.stream, err = t.gpu.Stream(); err != nil {
		return err
	}
	if t.addresses, err = t.gpu.Pin(launchSize * bytes); err != nil {
		return err
	}
	if t.hops, err = t.gpu.Pin(launchSize * HopBytes); err != nil {
		return err
	}
	t.params.Columns = Columns{Addresses: t.addresses.Ptr(), Hops: t.hops.Ptr()}
	if !t.is4 {
		if t.lowers, err = t.gpu.Pin(launchSize * LowerBytes); err != nil {
			return err
		}
		t.params.Columns.Lowers = t.lowers.Ptr()
	}
	words, err := t.gpu.Copy(image)
	if err != nil {
		return err
	}
	t.params.Columns.Image = words.Ptr()
	if t.launch, err = cuda.NewLaunch(kernel, &t.params); err != nil {
		return err
	}
	t.launch.Block.X = Threads
	return nil
}

// LookupBatch stores the next hop of src[i], an address of the table's family, in dst[i]. dst is at
// least as long as src. After an error dst is undefined.
func (t *Table) LookupBatch(dst []lookup.NextHopID, src []netip.Addr) error {
	dst = dst[:len(src)]
	if t.empty {
		clear(dst)
		return nil
	}
	err := t.gpu.Context.Do(func() error {
		for len(src) > 0 {
			n := min(len(src), launchSize)
			if err := t.lookUp(dst[:n], src[:n]); err != nil {
				return err
			}
			dst, src = dst[n:], src[n:]
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look up on %s: %w", t.gpu.Info.Name, err)
	}
	return nil
}

// unwritten fills results before a launch: no lookup returns it.
const unwritten = 0xff

func (t *Table) lookUp(dst []lookup.NextHopID, src []netip.Addr) error {
	for i, a := range src {
		if t.is4 {
			Put4(t.addresses.Bytes, i, a)
		} else {
			Put6(t.addresses.Bytes, t.lowers.Bytes, i, a)
		}
	}
	hops := t.hops.Bytes[:len(src)*HopBytes]
	for i := range hops {
		hops[i] = unwritten
	}
	const block = Threads * Each // results after the last address are ignored
	t.launch.Grid.X = uint32((len(src) + block - 1) / block)
	t.params.N = t.launch.Grid.X * block
	if err := t.launch.Enqueue(t.stream); err != nil {
		return err
	}
	if err := t.stream.Synchronize(); err != nil {
		return err
	}
	for i := range dst {
		if dst[i] = lookup.NextHopID(binary.NativeEndian.Uint32(hops[i*HopBytes:])); dst[i] > lookup.MaxNextHopID {
			return errors.New("the kernel left addresses without a result")
		}
	}
	return nil
}
