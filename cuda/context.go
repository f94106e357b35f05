package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
)

// Context is the state of a process on a GPU: memory, modules, streams. See the
// package's comment for how contexts and goroutines go together.
type Context struct {
	drv     *Driver
	dev     *Device
	handle  uintptr
	destroy func() error // nil: closed
	users   atomic.Int32 // running calls of Do
	closing atomic.Bool  // Close was called
}

// Retain returns the device's primary context, which all of a process share. Each
// Retain wants its Close; the last one ends the context.
func (d *Device) Retain() (*Context, error) {
	c := &Context{drv: d.drv, dev: d}
	if err := d.drv.call(cuDevicePrimaryCtxRetain, &c.handle, d.handle); err != nil {
		return nil, fmt.Errorf("make a context on GPU %d: %w", d.handle, err)
	}
	c.destroy = func() error { return d.drv.call(cuDevicePrimaryCtxRelease, d.handle) }
	return c, nil
}

// Device is the GPU that the context is on.
func (c *Context) Device() *Device { return c.dev }

// Bind makes the context the current one of the calling thread, for good. The
// goroutine must be locked to its thread.
func (c *Context) Bind() error {
	if err := c.drv.call(cuCtxSetCurrent, c.handle); err != nil {
		return fmt.Errorf("bind a thread to a context: %w", err)
	}
	return nil
}

// Do runs f on a locked thread with the context current, and leaves the thread as
// it was. It is for set-up and teardown: it costs two calls of the driver. Once Close was called
// it returns an error and does not call f, as the driver crashes on handles of a destroyed context.
func (c *Context) Do(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.users.Add(1)
	defer c.users.Add(-1)
	if c.closing.Load() {
		return errClosed
	}
	if err := c.drv.call(cuCtxPushCurrent, c.handle); err != nil {
		return fmt.Errorf("enter a context: %w", err)
	}
	err := f()
	var popped uintptr
	if popErr := c.drv.call(cuCtxPopCurrent, &popped); popErr != nil && err == nil {
		err = fmt.Errorf("leave a context: %w", popErr)
	}
	return err
}

// Synchronize waits until everything that was put into the context is done.
func (c *Context) Synchronize() error {
	if err := c.drv.call(cuCtxSynchronize); err != nil {
		return fmt.Errorf("wait for a GPU: %w", err)
	}
	return nil
}

// closeTime is how long Close waits for calls of Do.
const closeTime = 2 * time.Second

var errClosed = errors.New("enter a context: it was closed")

// Close waits for running calls of Do, gives the context back, and waits for what runs in it. What was made in it
// should have been closed. After an error it can be called again.
func (c *Context) Close() error {
	if c.destroy == nil {
		return nil
	}
	c.closing.Store(true)
	for by := time.Now().Add(closeTime); c.users.Load() > 0; time.Sleep(100 * time.Microsecond) {
		if time.Now().After(by) {
			c.closing.Store(false)
			return fmt.Errorf("close a context: it is still in use after %v", closeTime)
		}
	}
	destroy := c.destroy
	c.destroy = nil
	if err := destroy(); err != nil {
		c.destroy = destroy
		c.closing.Store(false)
		return fmt.Errorf("close a context: %w", err)
	}
	return nil
}
