package cuda

import (
	"errors"
	"fmt"
)

// HostMemory is registered (pinned) host memory. Devices read and write it in place over PCIe, and
// asynchronous copies use it.
type HostMemory struct {
	ctx   *Context
	bytes []byte
	base  hostAddress // of bytes; 0: closed
	ptr   DevicePtr
}

// Flags of cuMemHostRegister: for every context of the process, mapped for devices.
const registerPortable, registerMapped = 1, 2

// Register pins mem for every context of the process. mem is a mapping, not memory of Go's heap,
// and stays mapped until Close. The driver rejects mappings of device memory, and of 512 GiB or more.
func (c *Context) Register(mem []byte) (*HostMemory, error) {
	if len(mem) == 0 {
		return nil, errors.New("register host memory: it is empty")
	}
	h := &HostMemory{ctx: c, bytes: mem, base: hostAddress(address(mem))}
	if err := c.drv.cuMemHostRegister.call(h.base, uint64(len(mem)), registerPortable|registerMapped); err != nil {
		return nil, fmt.Errorf("register %d bytes of host memory: %w", len(mem), err)
	}
	if err := c.drv.cuMemHostGetDevicePointer.call(&h.ptr, h.base, 0); err != nil {
		h.Close()
		return nil, fmt.Errorf("map %d bytes of host memory: %w", len(mem), err)
	}
	return h, nil
}

// Bytes returns the memory. Words that a running kernel writes are read with sync/atomic.
func (h *HostMemory) Bytes() []byte { return h.bytes }

// Ptr returns the memory's device address.
func (h *HostMemory) Ptr() DevicePtr { return h.ptr }

// Close unregisters the memory, which stays mapped. It waits for running kernels.
func (h *HostMemory) Close() error {
	if h.base == 0 {
		return nil
	}
	base := h.base
	h.base = 0
	if err := h.ctx.drv.cuMemHostUnregister.call(base); err != nil {
		return fmt.Errorf("unregister %d bytes of host memory: %w", len(h.bytes), err)
	}
	return nil
}
