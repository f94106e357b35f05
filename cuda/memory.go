package cuda

import "fmt"

// DevicePtr is an address as the device sees it.
type DevicePtr uintptr

// Add returns the address n bytes further.
func (p DevicePtr) Add(n int) DevicePtr { return p + DevicePtr(n) }

// Memory is memory of a device.
type Memory struct {
	ctx  *Context
	ptr  DevicePtr // 0: closed
	size int
}

// Alloc returns so many bytes of memory of the device, aligned to 256. What is in
// them is undefined.
func (c *Context) Alloc(size int) (*Memory, error) {
	m := &Memory{ctx: c, size: size}
	if err := c.drv.call(cuMemAlloc, &m.ptr, size); err != nil {
		return nil, fmt.Errorf("allocate %d bytes on GPU %d: %w", size, c.dev.handle, err)
	}
	return m, nil
}

// Ptr is where the memory begins.
func (m *Memory) Ptr() DevicePtr { return m.ptr }

// Size is the memory's size in bytes.
func (m *Memory) Size() int { return m.size }

// Write copies p into the memory, offset bytes from its beginning, and waits until
// it is there. It waits for no stream that was made with NewStream.
func (m *Memory) Write(offset int, p []byte) error {
	if err := within(m.size, offset, len(p)); err != nil {
		return fmt.Errorf("write to device memory: %w", err)
	}
	if err := m.ctx.drv.call(cuMemcpyHtoD, m.ptr.Add(offset), p, len(p)); err != nil {
		return fmt.Errorf("write %d bytes to device memory: %w", len(p), err)
	}
	// The driver returns when it has p, the last of which may be on its way yet, in
	// the default stream.
	if err := m.ctx.drv.call(cuStreamSynchronize, 0); err != nil {
		return fmt.Errorf("write %d bytes to device memory: %w", len(p), err)
	}
	return nil
}

// Read copies from the memory, offset bytes from its beginning, until p is full.
// It waits for no stream.
func (m *Memory) Read(offset int, p []byte) error {
	if err := within(m.size, offset, len(p)); err != nil {
		return fmt.Errorf("read device memory: %w", err)
	}
	return m.ctx.ReadAt(m.ptr.Add(offset), p)
}

// ReadAt copies from memory of the device, of any that there is, until p is full. It waits
// for no stream.
func (c *Context) ReadAt(from DevicePtr, p []byte) error {
	if err := c.drv.call(cuMemcpyDtoH, p, from, len(p)); err != nil {
		return fmt.Errorf("read %d bytes of device memory: %w", len(p), err)
	}
	return nil
}

// Close frees the memory. It waits for kernels that run.
func (m *Memory) Close() error {
	if m.ptr == 0 {
		return nil
	}
	ptr := m.ptr
	m.ptr = 0
	if err := m.ctx.drv.call(cuMemFree, ptr); err != nil {
		return fmt.Errorf("free %d bytes of device memory: %w", m.size, err)
	}
	return nil
}

// MemoryInfo tells how many bytes of the device's memory are free, and of how many.
func (c *Context) MemoryInfo() (free, total uint64, err error) {
	if err := c.drv.call(cuMemGetInfo, &free, &total); err != nil {
		return 0, 0, fmt.Errorf("ask for the free memory of GPU %d: %w", c.dev.handle, err)
	}
	return free, total, nil
}

// within checks that n bytes from offset on lie in memory of the given size.
func within(size, offset, n int) error {
	if offset < 0 || n < 0 || offset > size-n {
		return fmt.Errorf("%d bytes at %d are not within %d", n, offset, size)
	}
	return nil
}
