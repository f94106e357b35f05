package cuda

import "fmt"

// HostMemory is memory of the host that devices read and write in place, over
// PCIe, and that copies go to and from while the host does other things.
type HostMemory struct {
	ctx   *Context
	bytes []byte
	base  uintptr // address of bytes; 0: closed
	ptr   DevicePtr
}

// Flags of cuMemHostRegister: for every context of the process, and with an
// address for devices.
const registerPortable, registerMapped = 1, 2

// Register pins mem, for every context of the process. mem is a mapping (of
// unix.Mmap), not memory of Go's heap, and stays mapped until Close. Mappings of a
// device's own memory cannot be registered, nor can 512 GiB or more at a time.
func (c *Context) Register(mem []byte) (*HostMemory, error) {
	if len(mem) == 0 {
		return nil, fmt.Errorf("register host memory: there is none")
	}
	h := &HostMemory{ctx: c, bytes: mem, base: address(mem)}
	if err := c.drv.call(cuMemHostRegister, h.base, len(mem), registerPortable|registerMapped); err != nil {
		return nil, fmt.Errorf("register %d bytes of host memory: %w", len(mem), err)
	}
	if err := c.drv.call(cuMemHostGetDevicePointer, &h.ptr, h.base, 0); err != nil {
		h.Close()
		return nil, fmt.Errorf("map %d bytes of host memory: %w", len(mem), err)
	}
	return h, nil
}

// Bytes is the memory as the host sees it. While a kernel may be writing to it,
// read what it publishes with sync/atomic.
func (h *HostMemory) Bytes() []byte { return h.bytes }

// Ptr is where the memory begins for the device.
func (h *HostMemory) Ptr() DevicePtr { return h.ptr }

// Close lets go of the memory, which stays mapped. It waits for kernels that run.
func (h *HostMemory) Close() error {
	if h.base == 0 {
		return nil
	}
	base := h.base
	h.base = 0
	if err := h.ctx.drv.call(cuMemHostUnregister, base); err != nil {
		return fmt.Errorf("unregister %d bytes of host memory: %w", len(h.bytes), err)
	}
	return nil
}
