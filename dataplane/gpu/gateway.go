package gpu

import (
	_ "embed"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/ipsec/device"
)

//go:generate sh -c "cd kernel && ../../../scripts/ptx.sh gateway.cu"

//go:embed kernel/gateway.ptx
var gatewayKernel []byte

const (
	gatewayThreads = 256    // of a block; gateway.cu has the same
	gatewayShared  = 107536 // bytes of shared memory of a block, without stages; job.h has the same
	gatewayWarps   = gatewayThreads / 32

	// What a warp needs of a stage at least: a frame with its owners, and a key.
	minStage = 4 * 1024
	// Keys that a device has room for; packets of associations beyond are the CPU's.
	maxKeys = 1 << 15
)

// vault is what a device has for a gateway.
type vault struct {
	kernel *cuda.Function
	shared uint32 // bytes of dynamic shared memory of a block
	stage  uint32 // words of a warp's stage
	keys   *cuda.Memory
	holder *holder
}

// vaultParams is struct vault of job.h.
type vaultParams struct {
	Keys, Jobs           cuda.DevicePtr
	SlotJobs, StageWords uint32
}

const keyBytes = device.KeyBytes

// prepareGateway loads the gateway's kernel, which is started in the place of the
// resident one. It returns how many blocks fit a multiprocessor.
func (d *Device) prepareGateway() (blocks int, err error) {
	if d.options.Mode != Resident {
		return 0, fmt.Errorf("have a GPU be a gateway: it needs the mode %s, not %s", Resident, d.options.Mode)
	}
	module, err := d.ctx.Load(gatewayKernel)
	if err != nil {
		return 0, err
	}
	d.closers = append(d.closers, module.Close)
	v := &vault{}
	if v.kernel, err = module.Function("gateway"); err != nil {
		return 0, err
	}
	most, err := d.ctx.Device().Attribute(cuda.MaxSharedPerBlockOptin)
	if err != nil {
		return 0, err
	}
	stage := (most - gatewayShared) / gatewayWarps &^ 15
	if stage < minStage {
		return 0, fmt.Errorf("have a GPU be a gateway: it has %d bytes of shared memory for a block, %d are needed", most, gatewayShared+gatewayWarps*minStage)
	}
	v.stage, v.shared = uint32(stage/4), uint32(gatewayShared+gatewayWarps*stage)
	if err := v.kernel.SetAttribute(cuda.MaxDynamicShared, int(v.shared)); err != nil {
		return 0, err
	}
	if v.keys, err = d.ctx.Alloc(maxKeys * keyBytes); err != nil {
		return 0, err
	}
	d.closers = append(d.closers, v.keys.Close)
	if v.holder, err = d.newHolder(v.keys); err != nil {
		return 0, err
	}
	d.vault = v
	return v.kernel.BlocksPerMultiprocessor(gatewayThreads, int(v.shared))
}

// secure gives an engine what it needs for a gateway, if there is one.
func (d *Device) secure(e *Engine, chunks, size int) (err error) {
	switch {
	case d.vault == nil && !e.cpu.Secures():
		return nil
	case d.vault == nil:
		return errors.New("have a GPU serve a gateway's worker: it was opened without the gateway")
	case !e.cpu.Secures():
		return errors.New("have a GPU serve a worker: it was opened with a gateway, and the worker's CPU engine has none")
	}
	if e.securer, err = newSecurer(chunks, size, maxKeys); err != nil {
		return err
	}
	d.closers = append(d.closers, e.securer.jobs.close)
	return nil
}

// gatewayKernel returns that of an engine of a gateway.
func (d *Device) gatewayKernel(e *Engine, p params) (*cuda.Launch, error) {
	jobs, err := d.ctx.Register(e.securer.jobs.mem)
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, jobs.Close)
	kernel, err := cuda.NewLaunch(d.vault.kernel, &struct {
		M params
		V vaultParams
	}{p, vaultParams{
		Keys: d.vault.keys.Ptr(), Jobs: jobs.Ptr(), SlotJobs: uint32(len(e.securer.jobs.slots[0])), StageWords: d.vault.stage,
	}})
	if err != nil {
		return nil, err
	}
	kernel.Block, kernel.Shared = cuda.Dim{X: gatewayThreads}, d.vault.shared
	return kernel, nil
}

// holder brings keys to the device and overwrites them there, for a gateway.Gateway. They
// pass through a page that is registered and cleared again: nothing else has a copy.
type holder struct {
	d      *Device
	to     *cuda.Memory
	page   *cuda.HostMemory
	stream *cuda.Stream
}

func (d *Device) newHolder(to *cuda.Memory) (*holder, error) {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("map a page for keys: %w", err)
	}
	d.closers = append(d.closers, func() error { return unix.Munmap(page) })
	h := &holder{d: d, to: to}
	if h.page, err = d.ctx.Register(page); err != nil {
		return nil, err
	}
	d.closers = append(d.closers, h.page.Close)
	if h.stream, err = d.ctx.NewStream(0); err != nil {
		return nil, err
	}
	d.closers = append(d.closers, h.stream.Close)
	return h, nil
}

// Hold is gateway.Holder's.
func (h *holder) Hold(number uint32, k *device.Key) { h.put(number, k.Bytes()) }

// Forget is gateway.Holder's.
func (h *holder) Forget(number uint32) { h.put(number, nil) }

// put brings bytes, and zeros behind them, to the place of a key. A device on which that
// fails is out: packets would be encrypted by another key, or not be decrypted.
func (h *holder) put(number uint32, b []byte) {
	if number >= maxKeys || !h.d.health.ok() {
		return
	}
	place := h.page.Bytes()[:keyBytes]
	copy(place, b)
	err := h.d.ctx.Do(func() error {
		if err := h.stream.CopyToDevice(h.to.Ptr().Add(int(number)*keyBytes), h.page, 0, keyBytes); err != nil {
			return err
		}
		for by := time.Now().Add(haltTime); ; {
			if done, err := h.stream.Done(); done || err != nil {
				return err
			}
			if time.Now().After(by) {
				return fmt.Errorf("it took longer than %v", haltTime)
			}
		}
	})
	clear(place)
	if err != nil {
		h.d.health.fail(fmt.Errorf("bring a key to GPU %d: %w", h.d.number, err))
	}
}
