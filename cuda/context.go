package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
)

// Context is the state of a process on a GPU: memory, modules, streams. The package comment has
// the rules for contexts and goroutines.
type Context struct {
	drv     *Driver
	dev     *Device
	handle  contextHandle
	green   greenHandle  // on which streams run; 0: on the whole device
	destroy func() error // nil: closed
	users   atomic.Int32 // running calls of Do
	closing atomic.Bool  // Close was called
}

// Retain returns the device's primary context, which is shared by the whole process. Every
// Retain needs a Close; the last Close destroys the context.
func (d *Device) Retain() (*Context, error) {
	c := &Context{drv: d.drv, dev: d}
	if err := d.drv.cuDevicePrimaryCtxRetain.call(&c.handle, d.handle); err != nil {
		return nil, fmt.Errorf("retain the primary context of GPU %d: %w", d.handle, err)
	}
	c.destroy = func() error { return d.drv.cuDevicePrimaryCtxRelease.call(d.handle) }
	return c, nil
}

// Device returns the GPU of the context.
func (c *Context) Device() *Device { return c.dev }

// Bind makes the context current on the calling thread. The goroutine must be locked to its
// thread.
func (c *Context) Bind() error {
	if err := c.drv.cuCtxSetCurrent.call(c.handle); err != nil {
		return fmt.Errorf("make a context current: %w", err)
	}
	return nil
}

// Do runs f on a locked thread with the context current, and restores the thread's context. It is
// for set-up and teardown: it costs two calls of the driver. After Close it returns an error without
// calling f, as the driver crashes on handles of a destroyed context.
func (c *Context) Do(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.users.Add(1)
	defer c.users.Add(-1)
	if c.closing.Load() {
		return errClosed
	}
	if err := c.drv.cuCtxPushCurrent.call(c.handle); err != nil {
		return fmt.Errorf("push a context: %w", err)
	}
	err := f()
	var popped contextHandle
	if popErr := c.drv.cuCtxPopCurrent.call(&popped); popErr != nil && err == nil {
		err = fmt.Errorf("pop a context: %w", popErr)
	}
	return err
}

// Synchronize waits for all work in the context.
func (c *Context) Synchronize() error {
	if err := c.drv.cuCtxSynchronize.call(); err != nil {
		return fmt.Errorf("synchronize a context: %w", err)
	}
	return nil
}

// closeTimeout limits the wait of Close for running calls of Do.
const closeTimeout = 2 * time.Second

var errClosed = errors.New("push a context: it is closed")

// Close waits for running calls of Do and for running work, and releases the context. Its resources
// should be closed before. After an error it can be called again.
func (c *Context) Close() error {
	if c.destroy == nil {
		return nil
	}
	c.closing.Store(true)
	for by := time.Now().Add(closeTimeout); c.users.Load() > 0; time.Sleep(100 * time.Microsecond) {
		if time.Now().After(by) {
			c.closing.Store(false)
			return fmt.Errorf("close a context: still in use after %v", closeTimeout)
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
