package cuda

import "fmt"

// Stream is a queue of work for the device: what is put into it runs in order, and
// beside what other streams hold. Its methods allocate nothing unless they fail.
type Stream struct {
	caller
	handle uintptr // 0: closed
}

// The flag of streams that do not wait for the process's default stream.
const streamNonBlocking = 1

// StreamPriorities returns the priorities that the device tells apart: from least
// (0) down to greatest, a negative number.
func (c *Context) StreamPriorities() (least, greatest int, err error) {
	var low, high int32
	if err := c.drv.call(cuCtxGetStreamPriorityRange, &low, &high); err != nil {
		return 0, 0, fmt.Errorf("ask for the priorities of streams: %w", err)
	}
	return int(low), int(high), nil
}

// NewStream returns a stream. A smaller number is a higher priority; numbers that
// StreamPriorities does not cover count as the nearest one.
func (c *Context) NewStream(priority int) (*Stream, error) {
	s := &Stream{caller: caller{drv: c.drv}}
	if err := c.drv.call(cuStreamCreateWithPriority, &s.handle, streamNonBlocking, priority); err != nil {
		return nil, fmt.Errorf("make a stream: %w", err)
	}
	return s, nil
}

// CopyToDevice copies n bytes of registered memory, offset bytes from its
// beginning, to the device.
func (s *Stream) CopyToDevice(to DevicePtr, from *HostMemory, offset, n int) error {
	if err := within(len(from.bytes), offset, n); err != nil {
		return fmt.Errorf("copy to the device: %w", err)
	}
	if err := s.raw(cuMemcpyHtoDAsync, uintptr(to), from.base+uintptr(offset), uintptr(n), s.handle); err != nil {
		return fmt.Errorf("copy to the device: %w", err)
	}
	return nil
}

// CopyToHost copies n bytes from the device to registered memory, offset bytes
// from its beginning.
func (s *Stream) CopyToHost(to *HostMemory, offset int, from DevicePtr, n int) error {
	if err := within(len(to.bytes), offset, n); err != nil {
		return fmt.Errorf("copy to the host: %w", err)
	}
	if err := s.raw(cuMemcpyDtoHAsync, to.base+uintptr(offset), uintptr(from), uintptr(n), s.handle); err != nil {
		return fmt.Errorf("copy to the host: %w", err)
	}
	return nil
}

// Copy copies n bytes within the device.
func (s *Stream) Copy(to, from DevicePtr, n int) error {
	if err := s.raw(cuMemcpyDtoDAsync, uintptr(to), uintptr(from), uintptr(n), s.handle); err != nil {
		return fmt.Errorf("copy within the device: %w", err)
	}
	return nil
}

// Fill sets n bytes to value.
func (s *Stream) Fill(to DevicePtr, value byte, n int) error {
	if err := s.raw(cuMemsetD8Async, uintptr(to), uintptr(value), uintptr(n), s.handle); err != nil {
		return fmt.Errorf("fill memory: %w", err)
	}
	return nil
}

// Fill32 sets n words to value; to is a multiple of 4.
func (s *Stream) Fill32(to DevicePtr, value uint32, n int) error {
	if err := s.raw(cuMemsetD32Async, uintptr(to), uintptr(value), uintptr(n), s.handle); err != nil {
		return fmt.Errorf("fill memory: %w", err)
	}
	return nil
}

// Wait has the stream wait, on the device, until the event has happened.
func (s *Stream) Wait(e *Event) error {
	if err := s.raw(cuStreamWaitEvent, s.handle, e.handle, 0); err != nil {
		return fmt.Errorf("have a stream wait: %w", err)
	}
	return nil
}

// Done tells whether the stream is empty.
func (s *Stream) Done() (bool, error) { return s.done(cuStreamQuery, s.handle) }

// Synchronize waits until the stream is empty.
func (s *Stream) Synchronize() error {
	if err := s.raw(cuStreamSynchronize, s.handle); err != nil {
		return fmt.Errorf("wait for a stream: %w", err)
	}
	return nil
}

// Close gives the stream back; what is in it still runs.
func (s *Stream) Close() error {
	if s.handle == 0 {
		return nil
	}
	handle := s.handle
	s.handle = 0
	if err := s.drv.call(cuStreamDestroy, handle); err != nil {
		return fmt.Errorf("close a stream: %w", err)
	}
	return nil
}
