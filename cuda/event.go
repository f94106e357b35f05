package cuda

import (
	"fmt"
	"time"
)

// Event marks a place in a stream: it happens when the device gets there. Like a
// Stream it belongs to one goroutine at a time.
type Event struct {
	caller
	handle uintptr // 0: closed
}

// NewEvent returns an event that takes the time when it happens.
func (c *Context) NewEvent() (*Event, error) { return c.newEvent(0) }

// NewMark returns an event that takes no time, and is cheaper.
func (c *Context) NewMark() (*Event, error) {
	const disableTiming = 2
	return c.newEvent(disableTiming)
}

func (c *Context) newEvent(flags int) (*Event, error) {
	e := &Event{caller: caller{drv: c.drv}}
	if err := c.drv.call(cuEventCreate, &e.handle, flags); err != nil {
		return nil, fmt.Errorf("make an event: %w", err)
	}
	return e, nil
}

// Record puts the event into a stream, and takes it out of where it was.
func (e *Event) Record(s *Stream) error {
	if err := e.raw(cuEventRecord, e.handle, s.handle); err != nil {
		return fmt.Errorf("record an event: %w", err)
	}
	return nil
}

// Done tells whether the event has happened since it was recorded.
func (e *Event) Done() (bool, error) { return e.done(cuEventQuery, e.handle) }

// Synchronize waits until the event has happened.
func (e *Event) Synchronize() error {
	if err := e.raw(cuEventSynchronize, e.handle); err != nil {
		return fmt.Errorf("wait for an event: %w", err)
	}
	return nil
}

// Since returns the device's time from start to e, both of which have happened
// and take the time. It is good to half a microsecond.
func (e *Event) Since(start *Event) (time.Duration, error) {
	var ms float32
	if err := e.drv.call(cuEventElapsedTime, &ms, start.handle, e.handle); err != nil {
		return 0, fmt.Errorf("take the time between events: %w", err)
	}
	return time.Duration(float64(ms) * float64(time.Millisecond)), nil
}

// Close gives the event back.
func (e *Event) Close() error {
	if e.handle == 0 {
		return nil
	}
	handle := e.handle
	e.handle = 0
	if err := e.drv.call(cuEventDestroy, handle); err != nil {
		return fmt.Errorf("close an event: %w", err)
	}
	return nil
}
