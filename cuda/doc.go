// Package cuda binds NVIDIA's driver, libcuda.so.1, without cgo and without a
// toolkit: the library is opened when the program runs, and a program on a host
// without one gets an error that says what to install.
//
// The way of a kernel: Open finds the driver, Driver.Devices its GPUs,
// Device.Retain a Context, Context.Load turns PTX into a Module, Module.Function
// names a kernel in it, NewLaunch ties the kernel to its parameters, and
// Launch.Enqueue puts it on a Stream. Context.Register lets the device read and
// write memory of the host in place; Context.Alloc is memory of the device.
//
// # Threads
//
// To the driver a context belongs to an OS thread, and a goroutine may change
// threads between any two calls. So everything below a Context must be called on
// a goroutine that is locked to its thread with the context current there:
//
//   - a worker, which is locked to a thread for its life, calls Context.Bind once;
//   - everybody else wraps set-up and teardown in Context.Do.
//
// A method called without a current context fails; it does not use another one.
// Streams, launches, events and graphs are each for one goroutine at a time.
//
// # Memory
//
// Whoever makes a resource closes it, before its context. Closing twice is
// allowed. The driver keeps addresses of host memory only where this package
// says so (Register); everything else is copied before a call returns.
//
// # Errors
//
// A failed call is an *Error: the call with its arguments, the driver's own words,
// and what mends it where that is known. errors.Is compares it with a Result.
//
// Kernels run after the call that started them, so a kernel's fault is reported by
// some later call. It is the end: where Lost is true, only a new process can use
// the GPU again.
//
// # Resident kernels
//
// Beside a kernel that stays one can launch, copy, fill, allocate, register, make
// and close streams and events, and find functions. Load, Context.Synchronize, and
// closing Memory, HostMemory, a Module or the Context wait until it ends. If it
// never does, neither do they; ending the process ends the kernel.
package cuda
