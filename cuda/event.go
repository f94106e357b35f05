package cuda

import (
	"fmt"
	"time"
)

// Event marks a place in a stream. It completes when the device reaches the place. Like a Stream
// it belongs to one goroutine at a time.
type Event struct {
	caller
	handle eventHandle // 0: closed
}

// EventFlags are properties of an event (CUevent_flags).
type EventFlags uint32

const (
	EventDefault       EventFlags = 0
	EventDisableTiming EventFlags = 2 // no time stamp, for Event.Since: cheaper
)

// NewEvent returns an event.
func (c *Context) NewEvent(flags EventFlags) (*Event, error) {
	e := &Event{caller: caller{drv: c.drv}}
	if err := c.drv.cuEventCreate.call(&e.handle, flags); err != nil {
		return nil, fmt.Errorf("create an event: %w", err)
	}
	return e, nil
}

// Record enqueues the event on a stream. It replaces the previous Record.
func (e *Event) Record(s *Stream) error {
	if err := call2(&e.caller, &e.drv.cuEventRecord, e.handle, s.handle); err != nil {
		return fmt.Errorf("record an event: %w", err)
	}
	return nil
}

// Done reports whether the event has completed since it was recorded.
func (e *Event) Done() (bool, error) { return query(&e.caller, &e.drv.cuEventQuery, e.handle) }

// Synchronize waits for the event.
func (e *Event) Synchronize() error {
	if err := call1(&e.caller, &e.drv.cuEventSynchronize, e.handle); err != nil {
		return fmt.Errorf("wait for an event: %w", err)
	}
	return nil
}

// Since returns the device's time from start to e, with a resolution of about 0.5 µs. Both events
// have timing and are completed.
func (e *Event) Since(start *Event) (time.Duration, error) {
	var ms float32
	if err := e.drv.cuEventElapsedTime.call(&ms, start.handle, e.handle); err != nil {
		return 0, fmt.Errorf("measure the time between events: %w", err)
	}
	return time.Duration(float64(ms) * float64(time.Millisecond)), nil
}

// Close destroys the event.
func (e *Event) Close() error {
	if e.handle == 0 {
		return nil
	}
	handle := e.handle
	e.handle = 0
	if err := e.drv.cuEventDestroy.call(handle); err != nil {
		return fmt.Errorf("close an event: %w", err)
	}
	return nil
}
