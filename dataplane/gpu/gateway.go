package gpu

import (
	_ "embed"
	"fmt"
	"time"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/internal/hostmem"
	"github.com/warproute/warproute/ipsec/device"
	"github.com/warproute/warproute/ipsec/gateway"
)

//go:generate sh -c "cd kernel && ../../../scripts/ptx.sh gateway.cu"

//go:embed kernel/gateway.ptx
var ipsecKernel []byte

// Kernels returns the PTX of the kernels of routers and of gateways.
func Kernels() (forward, gateway []byte) { return kernels, ipsecKernel }

const (
	// minStagingBytes is the smallest staging buffer of a warp: a frame with its line owners, and a key.
	minStagingBytes = 4 * 1024
	// maxKeys is the size of the key table. The CPU processes the packets of further SAs.
	maxKeys = gateway.MaxKeys
)

// ipsecTables are a device's copy of a gateway: keys, policies, SPIs, and lent sequence numbers. They implement gateway.Device.
type ipsecTables struct {
	*keyWriter
	*policies
	*spiTable
	shape      Shape // of the kernel
	keys       *cuda.Memory
	numbers    seqMemory
	nowServing cuda.DevicePtr // of ticket locks: kernel/ticket_lock.h
	lender     *lender        // nil: the host takes all sequence numbers
}

// ipsecTablesParams is the second parameter of the gateway kernel: struct ipsec_tables of job.h.
type ipsecTablesParams struct {
	Keys         cuda.DevicePtr
	Policies     cuda.DevicePtr // where the device finds the address of the policies
	SPIs         cuda.DevicePtr
	Seqs         cuda.DevicePtr
	Tunnels      cuda.DevicePtr
	NowServing   cuda.DevicePtr
	StagingWords uint64
	AESBytes     uint64
}

const keyBytes = device.KeyBytes

// params returns the parameter.
func (t *ipsecTables) params() ipsecTablesParams {
	return ipsecTablesParams{
		Keys: t.keys.Ptr(), Policies: t.policies.pointer.Ptr(), SPIs: t.spiTable.at, Seqs: t.numbers.seqs, Tunnels: t.numbers.tunnels, NowServing: t.nowServing,
		StagingWords: uint64(t.shape.Staging / 4), AESBytes: t.shape.aesBytes(),
	}
}

// loadGateway loads the gateway kernel, which replaces the forwarding kernel, for a launch shape.
func (d *Device) loadGateway(s Shape) (*cuda.Function, error) {
	module, err := d.load(ipsecKernel)
	if err != nil {
		return nil, err
	}
	f, err := module.Function("gateway")
	if err != nil {
		return nil, err
	}
	t := &ipsecTables{shape: s}
	if t.keys, err = d.alloc(maxKeys * keyBytes); err != nil {
		return nil, err
	}
	if t.nowServing, err = d.allocZeros(maxWorkers * nowServingBytes); err != nil {
		return nil, err
	}
	if home := d.options.seqHome; home != nil {
		t.numbers, err = d.useNumbersOf(home)
	} else {
		t.numbers, err = d.newNumbers()
	}
	if err != nil {
		return nil, err
	}
	if t.keyWriter, err = d.newKeyWriter(t.keys); err != nil {
		return nil, err
	}
	if t.policies, err = d.newPolicies(); err != nil {
		return nil, err
	}
	if t.spiTable, err = d.newSPITable(); err != nil {
		return nil, err
	}
	d.ipsecTables = t
	return f, nil
}

// keyWriter writes keys to a device's key table and overwrites deleted ones, for a gateway.Gateway. The
// only further copy in host memory is a registered staging page, which is cleared after each key.
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

// Store implements gateway.Device.
func (h *keyWriter) Store(index uint32, k *device.Key) { h.put(index, k.Bytes()) }

// Erase implements gateway.Device.
func (h *keyWriter) Erase(index uint32) {
	h.d.tables.patcher.drain() // no packet finds the SA any more
	h.d.ipsecTables.awaitKeyUsers(index)
	h.put(index, nil)
}

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
		for by := time.Now().Add(patchLimit); ; {
			if done, err := h.stream.Done(); done || err != nil {
				return err
			}
			if time.Now().After(by) {
				return fmt.Errorf("not finished within %v", patchLimit)
			}
		}
	})
	clear(record)
	if err != nil {
		h.d.state.fail(fmt.Errorf("write a key to GPU %d: %w", h.d.number, err))
	}
}
