package cuda

import "fmt"

// Stream is a queue of work for the device. Its work runs in order, and concurrently with other
// streams. Its methods allocate nothing unless they fail.
type Stream struct {
	caller
	handle streamHandle // 0: closed
}

// streamNonBlocking is CU_STREAM_NON_BLOCKING: no synchronization with the default stream.
const streamNonBlocking = 1

// StreamPriorities returns the range of stream priorities: from least (0) down to greatest, a
// negative number.
func (c *Context) StreamPriorities() (least, greatest int, err error) {
	var low, high int32
	if err := c.drv.cuCtxGetStreamPriorityRange.call(&low, &high); err != nil {
		return 0, 0, fmt.Errorf("read the stream priorities: %w", err)
	}
	return int(low), int(high), nil
}

// NewStream returns a stream. A smaller number is a higher priority; the driver clamps it to the
// range of StreamPriorities.
func (c *Context) NewStream(priority int) (*Stream, error) {
	s := &Stream{caller: caller{drv: c.drv}}
	var err error
	if c.green != 0 {
		err = c.drv.cuGreenCtxStreamCreate.call(&s.handle, c.green, streamNonBlocking, int32(priority))
	} else {
		err = c.drv.cuStreamCreateWithPriority.call(&s.handle, streamNonBlocking, int32(priority))
	}
	if err != nil {
		return nil, fmt.Errorf("create a stream: %w", err)
	}
	return s, nil
}

// CopyToDevice copies n bytes of registered memory, offset bytes from its
// beginning, to the device.
func (s *Stream) CopyToDevice(to DevicePtr, from *HostMemory, offset, n int) error {
	if err := within(len(from.bytes), offset, n); err != nil {
		return fmt.Errorf("copy to the device: %w", err)
	}
	if err := call4(&s.caller, &s.drv.cuMemcpyHtoDAsync, to, from.base+hostAddress(offset), uint64(n), s.handle); err != nil {
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
	if err := call4(&s.caller, &s.drv.cuMemcpyDtoHAsync, to.base+hostAddress(offset), from, uint64(n), s.handle); err != nil {
		return fmt.Errorf("copy to the host: %w", err)
	}
	return nil
}

// Copy copies n bytes within the device.
func (s *Stream) Copy(to, from DevicePtr, n int) error {
	if err := call4(&s.caller, &s.drv.cuMemcpyDtoDAsync, to, from, uint64(n), s.handle); err != nil {
		return fmt.Errorf("copy within the device: %w", err)
	}
	return nil
}

// Fill sets n bytes to value.
func (s *Stream) Fill(to DevicePtr, value byte, n int) error {
	if err := call4(&s.caller, &s.drv.cuMemsetD8Async, to, value, uint64(n), s.handle); err != nil {
		return fmt.Errorf("fill memory: %w", err)
	}
	return nil
}

// Fill32 sets n words to value; to is a multiple of 4.
func (s *Stream) Fill32(to DevicePtr, value uint32, n int) error {
	if err := call4(&s.caller, &s.drv.cuMemsetD32Async, to, value, uint64(n), s.handle); err != nil {
		return fmt.Errorf("fill memory: %w", err)
	}
	return nil
}

// Wait makes the stream wait on the device for the event.
func (s *Stream) Wait(e *Event) error {
	if err := call3(&s.caller, &s.drv.cuStreamWaitEvent, s.handle, e.handle, 0); err != nil {
		return fmt.Errorf("make a stream wait for an event: %w", err)
	}
	return nil
}

// Done reports whether the stream is empty.
func (s *Stream) Done() (bool, error) { return query(&s.caller, &s.drv.cuStreamQuery, s.handle) }

// Synchronize waits until the stream is empty.
func (s *Stream) Synchronize() error {
	if err := call1(&s.caller, &s.drv.cuStreamSynchronize, s.handle); err != nil {
		return fmt.Errorf("synchronize a stream: %w", err)
	}
	return nil
}

// Close destroys the stream. Enqueued work still runs.
func (s *Stream) Close() error {
	if s.handle == 0 {
		return nil
	}
	handle := s.handle
	s.handle = 0
	if err := s.drv.cuStreamDestroy.call(handle); err != nil {
		return fmt.Errorf("destroy a stream: %w", err)
	}
	return nil
}
