package cuda

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"

	"golang.org/x/sys/unix"
)

// A function of the driver is called in one of two ways. Its method call is for set-up: it
// allocates. A caller passes machine words, allocates nothing, and is for the calls of each chunk.

// function is a function of the driver.
type function struct {
	name, suffix string
	args         []string // names of the parameters
	abi          Version
	address      uintptr // 0: the driver lacks it
	drv          *Driver
}

// Functions by their number of parameters. Each type begins with its function.
type (
	fn0                       struct{ function }
	fn1[A any]                struct{ function }
	fn2[A, B any]             struct{ function }
	fn3[A, B, C any]          struct{ function }
	fn4[A, B, C, D any]       struct{ function }
	fn5[A, B, C, D, E any]    struct{ function }
	fn6[A, B, C, D, E, F any] struct{ function }
	fnLaunch                  struct{ function } // see caller.launch
)

func (f *fn0) call() error                               { return f.invoke() }
func (f *fn1[A]) call(a A) error                         { return f.invoke(a) }
func (f *fn2[A, B]) call(a A, b B) error                 { return f.invoke(a, b) }
func (f *fn3[A, B, C]) call(a A, b B, c C) error         { return f.invoke(a, b, c) }
func (f *fn4[A, B, C, D]) call(a A, b B, c C, d D) error { return f.invoke(a, b, c, d) }
func (f *fn5[A, B, C, D, E]) call(a A, b B, c C, d D, e E) error {
	return f.invoke(a, b, c, d, e)
}
func (f *fn6[A, B, C, D, E, F]) call(a A, b B, c C, d D, e E, g F) error {
	return f.invoke(a, b, c, d, e, g)
}

// invoke calls the function. An argument is an integer or a handle, a string (passed as a C
// string), a slice (passed as the address of its first element), or a pointer.
func (f *function) invoke(args ...any) error {
	if err := f.supported(); err != nil {
		return err
	}
	if r := invoke(f.address, args...); r != success {
		return f.failure(r, args)
	}
	return nil
}

// supported returns errors.ErrUnsupported if the driver lacks the function.
func (f *function) supported() error {
	if f.address != 0 {
		return nil
	}
	return fmt.Errorf("%s: requires CUDA %v, the driver supports CUDA %v: update the driver: %w", f.name, f.abi, f.drv.version, errors.ErrUnsupported)
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

// address returns the address that a pointer holds, or of a slice's first element. The reflect
// call moves both to the heap, where they stay in place while the caller keeps v.
func address(v any) uintptr { return reflect.ValueOf(v).Pointer() }

// caller makes the calls of an object that one goroutine uses. The arguments are in the object,
// as arguments on the stack would escape to the heap: an allocation for each call.
type caller struct {
	drv   *Driver
	words [11]uintptr // cuLaunchKernel has the most
}

// word is a type of argument that is passed as it is.
type word interface {
	~uintptr | ~int32 | ~uint32 | ~uint64 | ~byte
}

func call1[A word](c *caller, f *fn1[A], a A) error {
	return c.check(&f.function, c.call(&f.function, uintptr(a)))
}

func call2[A, B word](c *caller, f *fn2[A, B], a A, b B) error {
	return c.check(&f.function, c.call(&f.function, uintptr(a), uintptr(b)))
}

func call3[A, B, C word](c *caller, f *fn3[A, B, C], a A, b B, d C) error {
	return c.check(&f.function, c.call(&f.function, uintptr(a), uintptr(b), uintptr(d)))
}

func call4[A, B, C, D word](c *caller, f *fn4[A, B, C, D], a A, b B, d C, e D) error {
	return c.check(&f.function, c.call(&f.function, uintptr(a), uintptr(b), uintptr(d), uintptr(e)))
}

// query reports whether a stream or an event has completed.
func query[A word](c *caller, f *fn1[A], a A) (done bool, err error) {
	r := c.call(&f.function, uintptr(a))
	if r == NotReady {
		return false, nil
	}
	err = c.check(&f.function, r)
	return err == nil, err
}

func (c *caller) launch(fn functionHandle, grid, block Dim, shared uint32, s streamHandle, params uintptr) error {
	f := &c.drv.cuLaunchKernel.function
	return c.check(f, c.call(f, uintptr(fn), uintptr(grid.X), uintptr(grid.Y), uintptr(grid.Z),
		uintptr(block.X), uintptr(block.Y), uintptr(block.Z), uintptr(shared), uintptr(s), params, 0))
}

func (c *caller) call(f *function, args ...uintptr) Result {
	n := copy(c.words[:], args)
	return syscallC(f.address, c.words[:n]...)
}

// check returns the error of the last call, of f.
func (c *caller) check(f *function, r Result) error {
	if r == success {
		return nil
	}
	args := make([]any, len(f.args))
	for i := range args {
		args[i] = c.words[i]
	}
	return f.failure(r, args)
}

// goString copies a C string.
func goString(s *byte) string { return unix.BytePtrToString(s) }
