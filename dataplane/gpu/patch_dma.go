package gpu

import (
	"fmt"
	"time"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/internal/hostmem"
)

// patchTimeout limits the application of patches, after which the CPU replaces the GPU until they are
// applied. It is long: a short prefix has millions of words. After patchLimit the device has failed.
const (
	patchTimeout = 2 * time.Second
	patchLimit   = 10 * time.Second
)

// patchesAt is the offset of the patches in the host memory, behind the device's count.
const patchesAt = 256

// patchDMA copies patches to the device and runs the kernel patch_tables, which applies them in order
// and counts them in host memory.
type patchDMA struct {
	state  *deviceState
	memory []byte
	host   *cuda.HostMemory
	list   cuda.DevicePtr
	stream *cuda.Stream
	kernel *cuda.Launch
	params struct {
		List    cuda.DevicePtr
		N       uint32
		Applied cuda.DevicePtr
		Total   uint64
	}
}

func (d *Device) newPatchDMA() (*patchDMA, error) {
	memory, err := hostmem.Map(patchesAt + maxPatches*patchBytes)
	if err != nil {
		return nil, fmt.Errorf("patches of tables: %w", err)
	}
	d.closers = append(d.closers, memory.Close)
	p := &patchDMA{state: &d.state, memory: memory.Bytes}
	if p.host, err = d.register(memory.Bytes); err != nil {
		return nil, err
	}
	list, err := d.alloc(maxPatches * patchBytes)
	if err != nil {
		return nil, err
	}
	_, greatest, err := d.ctx.StreamPriorities()
	if err != nil {
		return nil, err
	}
	if p.stream, err = d.newStream(greatest); err != nil {
		return nil, err
	}
	p.list, p.params.List, p.params.Applied = list.Ptr(), list.Ptr(), p.host.Ptr()
	if p.kernel, err = cuda.NewLaunch(d.patch, &p.params); err != nil {
		return nil, err
	}
	p.kernel.Grid, p.kernel.Block = cuda.Dim{X: 1}, cuda.Dim{X: threads}
	d.stops = append(d.stops, func(by time.Time) error { return waitUntil(by, p.stream.Done) })
	return p, nil
}

// apply applies up to maxPatches patches and waits for the device.
func (p *patchDMA) apply(patches []patch) error {
	n := copy(patchesIn(p.memory[patchesAt:]), patches)
	p.params.N, p.params.Total = uint32(n), p.params.Total+uint64(n)
	if err := p.stream.CopyToDevice(p.list, p.host, patchesAt, n*patchBytes); err != nil {
		return err
	}
	if err := p.kernel.Enqueue(p.stream); err != nil {
		return err
	}
	return p.state.awaitPatches(n, patchTimeout, patchLimit, func() bool { return appliedPatches(p.memory) == p.params.Total }, func() error {
		_, err := p.stream.Done()
		return err
	})
}

// awaitPatches waits until n patches are applied. From a timeout on, the tables are stale meanwhile: kernels
// of other processes can keep the patches off the GPU. It fails after the limit, or with the error that the
// driver reports then.
func (s *deviceState) awaitPatches(n int, timeout, limit time.Duration, applied func() bool, check func() error) error {
	start := time.Now()
	for waited := time.Duration(0); waited <= timeout; waited = time.Since(start) {
		if applied() {
			return nil
		}
		time.Sleep(10 * time.Microsecond)
	}
	s.stale.Store(&Outage{time.Now(), fmt.Errorf("its tables are stale: %d patches not applied within %v", n, timeout)})
	defer s.stale.Store(nil)
	for !applied() {
		if err := check(); err != nil {
			return fmt.Errorf("apply %d table patches: %w", n, err)
		}
		if time.Since(start) > limit {
			return fmt.Errorf("apply %d table patches: not finished within %v", n, limit)
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}
