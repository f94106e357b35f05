package cuda

import "fmt"

// DevicePtr is a device address (CUdeviceptr).
type DevicePtr uintptr

// Add returns the address n bytes after p.
func (p DevicePtr) Add(n int) DevicePtr { return p + DevicePtr(n) }

// Memory is device memory.
type Memory struct {
	ctx  *Context
	ptr  DevicePtr // 0: closed
	size int
}

// Alloc allocates size bytes of device memory, aligned to 256. Their content is undefined.
func (c *Context) Alloc(size int) (*Memory, error) {
	m := &Memory{ctx: c, size: size}
	if err := c.drv.cuMemAlloc.call(&m.ptr, uint64(size)); err != nil {
		return nil, fmt.Errorf("allocate %d bytes on GPU %d: %w", size, c.dev.handle, err)
	}
	return m, nil
}

// Ptr returns the memory's address.
func (m *Memory) Ptr() DevicePtr { return m.ptr }

// Size returns the size in bytes.
func (m *Memory) Size() int { return m.size }

// Write copies p to the memory, offset bytes from its beginning, and waits for completion. It waits
// for no stream of NewStream.
func (m *Memory) Write(offset int, p []byte) error {
	if err := within(m.size, offset, len(p)); err != nil {
		return fmt.Errorf("write to device memory: %w", err)
	}
	if err := m.ctx.drv.cuMemcpyHtoD.call(m.ptr.Add(offset), p, uint64(len(p))); err != nil {
		return fmt.Errorf("write %d bytes to device memory: %w", len(p), err)
	}
	// The call returns when the driver has staged p; the DMA in the default stream may still run.
	if err := m.ctx.drv.cuStreamSynchronize.call(0); err != nil {
		return fmt.Errorf("write %d bytes to device memory: %w", len(p), err)
	}
	return nil
}

// Read fills p from the memory, offset bytes from its beginning. It waits for no stream.
func (m *Memory) Read(offset int, p []byte) error {
	if err := within(m.size, offset, len(p)); err != nil {
		return fmt.Errorf("read device memory: %w", err)
	}
	return m.ctx.ReadAt(m.ptr.Add(offset), p)
}

// ReadAt fills p from any device memory. It waits for no stream.
func (c *Context) ReadAt(from DevicePtr, p []byte) error {
	if err := c.drv.cuMemcpyDtoH.call(p, from, uint64(len(p))); err != nil {
		return fmt.Errorf("read %d bytes of device memory: %w", len(p), err)
	}
	return nil
}

// Close frees the memory. It waits for running kernels.
func (m *Memory) Close() error {
	if m.ptr == 0 {
		return nil
	}
	ptr := m.ptr
	m.ptr = 0
	if err := m.ctx.drv.cuMemFree.call(ptr); err != nil {
		return fmt.Errorf("free %d bytes of device memory: %w", m.size, err)
	}
	return nil
}

// MemoryInfo returns the free and the total bytes of device memory.
func (c *Context) MemoryInfo() (free, total uint64, err error) {
	if err := c.drv.cuMemGetInfo.call(&free, &total); err != nil {
		return 0, 0, fmt.Errorf("read the free memory of GPU %d: %w", c.dev.handle, err)
	}
	return free, total, nil
}

// within checks that n bytes at offset lie in memory of the given size.
func within(size, offset, n int) error {
	if offset < 0 || n < 0 || offset > size-n {
		return fmt.Errorf("%d bytes at %d are not within %d", n, offset, size)
	}
	return nil
}
