package cuda

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"

	"golang.org/x/sys/unix"
)

// There are two ways to call the driver. call takes arguments as a C programmer
// writes them and is for set-up: it allocates. caller.raw takes machine words,
// allocates nothing, and is for what runs per chunk.

// call calls a function of the driver. An argument is an integer or a handle, a
// string (passed as a C string), a slice (passed as the address of its first
// element), or a pointer, to what the call reads or to where it writes.
func (d *Driver) call(s symbol, args ...any) error {
	if d.fn[s] == 0 {
		return d.unsupported(s)
	}
	return d.failure(s, invoke(d.fn[s], args...), args...)
}

// unsupported is the error for an optional function that the driver lacks.
func (d *Driver) unsupported(s symbol) error {
	return fmt.Errorf("%s: came with CUDA %v, this driver is for CUDA %v: update the driver: %w",
		symbols[s].name, symbols[s].abi, d.version, errors.ErrUnsupported)
}

// invoke calls the C function at fn.
func invoke(fn uintptr, args ...any) Result {
	words, texts := make([]uintptr, len(args)), make([][]byte, len(args))
	for i, arg := range args {
		switch v := reflect.ValueOf(arg); {
		case v.Kind() == reflect.String:
			texts[i] = append([]byte(v.String()), 0)
			words[i] = address(texts[i])
		case v.CanInt():
			words[i] = uintptr(v.Int())
		case v.CanUint():
			words[i] = uintptr(v.Uint())
		default:
			words[i] = address(arg)
		}
	}
	r := syscallC(fn, words...)
	runtime.KeepAlive(args)
	runtime.KeepAlive(texts)
	return r
}

// address is where a pointer points to or a slice's elements are. Taking it this
// way puts them on the heap, where they do not move; who keeps the address keeps
// the pointer or the slice as well.
func address(v any) uintptr { return reflect.ValueOf(v).Pointer() }

// caller makes the calls of an object that one goroutine uses. Its block of words
// is written anew for each: a block on the stack would be moved to the heap, and
// so allocated, every time.
type caller struct {
	drv   *Driver
	words [11]uintptr // cuLaunchKernel has the most
}

// raw calls a required function of the driver with words as they are.
func (c *caller) raw(s symbol, args ...uintptr) error {
	if r := c.result(s, args...); r != success {
		return c.failure(s, r)
	}
	return nil
}

// done asks whether a stream or an event is done; that it is not is no failure.
func (c *caller) done(query symbol, handle uintptr) (bool, error) {
	switch r := c.result(query, handle); r {
	case success:
		return true, nil
	case NotReady:
		return false, nil
	default:
		return false, c.failure(query, r)
	}
}

func (c *caller) result(s symbol, args ...uintptr) Result {
	n := copy(c.words[:], args)
	return syscallC(c.drv.fn[s], c.words[:n]...)
}

// failure is the error for the call that was made last, of s.
func (c *caller) failure(s symbol, r Result) error {
	args := make([]any, len(c.words))
	for i, word := range c.words {
		args[i] = word
	}
	return c.drv.failure(s, r, args...)
}

// goString copies a C string.
func goString(s *byte) string { return unix.BytePtrToString(s) }
