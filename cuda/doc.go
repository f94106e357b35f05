// Package cuda binds the CUDA driver API (libcuda.so.1) without cgo and without a toolkit. The
// library is loaded at run time; on a host without it, Open returns an error with a remedy.
//
// To run a kernel: Open loads the driver, Driver.Devices lists its GPUs, Device.Retain returns a
// Context, Context.Load compiles PTX to a Module, Module.Function returns a kernel, NewLaunch binds
// the kernel to its parameters, and Launch.Enqueue enqueues it on a Stream. Context.Register maps
// host memory for the device, and Context.Alloc allocates device memory. The Example shows it.
//
// Graphs replay recorded work with one call, events order and time streams, and partitions (green
// contexts) reserve multiprocessors.
//
// # Threads
//
// The driver has a current context for each OS thread, and a goroutine can change threads between
// two calls. Methods of a Context and of its resources therefore need a goroutine that is locked to
// its thread, with the context current:
//
//   - a worker, locked to a thread for its life, calls Context.Bind once;
//   - other goroutines wrap set-up and teardown in Context.Do.
//
// Without a current context a method fails. A Stream, Launch, Event or Graph is used by one
// goroutine at a time.
//
// # Memory
//
// The creator of a resource closes it, before its context. Closing twice is allowed. The driver
// keeps no address of host memory after a call, except of registered memory.
//
// # Errors
//
// A failed call returns an *Error: the call with its arguments, the driver's description, and a hint.
// errors.Is compares it with a Result.
//
// Kernels run asynchronously, so a later call reports a kernel's fault. After a sticky error (see
// Sticky) only a new process can use the GPU.
//
// # Resident kernels
//
// While a kernel runs, these calls return: launch, copy, fill, allocate, register, create and close
// streams and events, find functions. These wait for its end: Load, Context.Synchronize, and closing
// Memory, HostMemory, a Module or the Context. The end of the process ends the kernel.
package cuda
