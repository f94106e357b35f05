package gpu

import (
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/internal/hostmem"
	"github.com/warproute/warproute/ipsec/device"
)

//go:generate sh -c "cd kernel && ../../../scripts/ptx.sh gateway.cu"

//go:embed kernel/gateway.ptx
var ipsecKernel []byte

const (
	gatewayThreads = 256    // of a block, as in gateway.cu
	gatewayShared  = 107536 // bytes of shared memory of a block without staging buffers, as in job.h
	gatewayWarps   = gatewayThreads / 32

	// minStagingBytes is the smallest staging buffer of a warp: a frame with its line owners, and a key.
	minStagingBytes = 4 * 1024
	// maxKeys is the size of the key table. The CPU processes the packets of further SAs.
	maxKeys = 1 << 15
)

// keyTable is the IPsec kernel of a device and its key table.
type keyTable struct {
	kernel    *cuda.Function
	shared    uint32 // bytes of dynamic shared memory of a block
	staging   uint32 // words of a warp's staging buffer
	keys      *cuda.Memory
	keyWriter *keyWriter
}

// keyTableParams is the second parameter of the kernel: struct key_table of job.h.
type keyTableParams struct {
	Keys, Jobs             cuda.DevicePtr
	SlotJobs, StagingWords uint32
}

const keyBytes = device.KeyBytes

// loadGateway loads the IPsec kernel, which replaces the forwarding kernel. It returns the blocks per
// multiprocessor.
func (d *Device) loadGateway() (blocks int, err error) {
	if d.options.Mode != Resident {
		return 0, fmt.Errorf("GPU IPsec requires mode %s, not %s", Resident, d.options.Mode)
	}
	module, err := d.load(ipsecKernel)
	if err != nil {
		return 0, err
	}
	v := &keyTable{}
	if v.kernel, err = module.Function("gateway"); err != nil {
		return 0, err
	}
	most, err := d.ctx.Device().Attribute(cuda.MaxSharedPerBlockOptin)
	if err != nil {
		return 0, err
	}
	staging := (most - gatewayShared) / gatewayWarps &^ 15
	if staging < minStagingBytes {
		return 0, fmt.Errorf("GPU IPsec requires %d bytes of shared memory per block, the GPU has %d", gatewayShared+gatewayWarps*minStagingBytes, most)
	}
	v.staging, v.shared = uint32(staging/4), uint32(gatewayShared+gatewayWarps*staging)
	if err := v.kernel.SetAttribute(cuda.MaxDynamicShared, int(v.shared)); err != nil {
		return 0, err
	}
	if v.keys, err = d.alloc(maxKeys * keyBytes); err != nil {
		return 0, err
	}
	if v.keyWriter, err = d.newKeyWriter(v.keys); err != nil {
		return 0, err
	}
	d.keyTable = v
	return v.kernel.BlocksPerMultiprocessor(gatewayThreads, int(v.shared))
}

// addIPsec adds the IPsec path to an engine of a gateway.
func (d *Device) addIPsec(e *Engine, chunks, size int) (err error) {
	switch {
	case d.keyTable == nil && e.esp == nil:
		return nil
	case d.keyTable == nil:
		return errors.New("GPU engine for an IPsec worker: the GPU was opened without IPsec")
	case e.esp == nil:
		return errors.New("GPU engine for a worker without IPsec: the GPU was opened with IPsec")
	}
	if e.ipsec, err = newIPsecPath(chunks, size, maxKeys); err != nil {
		return err
	}
	d.closers = append(d.closers, e.ipsec.deviceJobs.Close)
	return nil
}

// ipsecKernel returns the launch of an engine's IPsec kernel.
func (d *Device) ipsecKernel(e *Engine, p params) (*cuda.Launch, error) {
	jobs, err := d.register(e.ipsec.deviceJobs.Bytes)
	if err != nil {
		return nil, err
	}
	kernel, err := cuda.NewLaunch(d.keyTable.kernel, &struct {
		M params
		V keyTableParams
	}{p, keyTableParams{
		Keys: d.keyTable.keys.Ptr(), Jobs: jobs.Ptr(), SlotJobs: uint32(len(e.ipsec.deviceJobs.slots[0])), StagingWords: d.keyTable.staging,
	}})
	if err != nil {
		return nil, err
	}
	kernel.Block, kernel.Shared = cuda.Dim{X: gatewayThreads}, d.keyTable.shared
	return kernel, nil
}

// keyWriter writes keys to a device's key table and overwrites deleted ones, for a gateway.Gateway. The
// only copy is a registered staging page, which is cleared after each key.
type keyWriter struct {
	d      *Device
	to     *cuda.Memory
	page   *cuda.HostMemory
	stream *cuda.Stream
}

func (d *Device) newKeyWriter(to *cuda.Memory) (*keyWriter, error) {
	page, err := hostmem.Map(4096)
	if err != nil {
		return nil, fmt.Errorf("staging page for keys: %w", err)
	}
	d.closers = append(d.closers, page.Close)
	h := &keyWriter{d: d, to: to}
	if h.page, err = d.register(page.Bytes); err != nil {
		return nil, err
	}
	h.stream, err = d.newStream(0)
	return h, err
}

// Store implements gateway.KeyTable.
func (h *keyWriter) Store(index uint32, k *device.Key) { h.put(index, k.Bytes()) }

// Erase implements gateway.KeyTable.
func (h *keyWriter) Erase(index uint32) { h.put(index, nil) }

// put writes bytes and zeros behind them to a key's record. A failure takes the device out of use, as
// packets would be encrypted with another key.
func (h *keyWriter) put(index uint32, b []byte) {
	if index >= maxKeys || !h.d.state.ok() {
		return
	}
	record := h.page.Bytes()[:keyBytes]
	copy(record, b)
	err := h.d.ctx.Do(func() error {
		if err := h.stream.CopyToDevice(h.to.Ptr().Add(int(index)*keyBytes), h.page, 0, keyBytes); err != nil {
			return err
		}
		for by := time.Now().Add(haltTimeout); ; {
			if done, err := h.stream.Done(); done || err != nil {
				return err
			}
			if time.Now().After(by) {
				return fmt.Errorf("not finished within %v", haltTimeout)
			}
		}
	})
	clear(record)
	if err != nil {
		h.d.state.fail(fmt.Errorf("write a key to GPU %d: %w", h.d.number, err))
	}
}
