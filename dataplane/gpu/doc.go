// Package gpu is the GPU engine: GPUs route packets in place. A GPU reads the headers of frames in the
// workers' memory over PCIe, looks up and rewrites them as package cpu does, and writes the results to
// a mailbox.
//
//	worker                         host memory                        GPU
//	Submit  ── descriptors ──►  mailbox: one slot per     ◄── polls ── blocks
//	                            tile in flight
//	                            frames (umem)             ◄── reads, rewrites 32 bytes
//	Done    ◄── results ──────  results, done             ◄── writes, fence, done
//
// The kernel is resident: a chunk needs no driver call. One kernel serves all workers of a GPU. A worker
// divides a chunk into tiles (tiling.go) and gives each a free block of the pool that all workers share
// (pool.go), so that one worker can use the whole GPU. If few blocks of a gateway are free,
// a tile may queue behind another one of its worker (queue.go). Chunks of a lane complete in order.
//
// # Load
//
// Blocks that the load does not need are asleep: they poll device memory instead of the mailbox. The
// controller puts them to sleep, and parks the kernel if no worker needs it (Options.Park): the kernel ends, and
// the GPU is free for other processes. The first chunk that needs a parked kernel wakes it; the CPU engine
// executes chunks meanwhile (control.go, kernel.go).
//
// # Choice of the engine
//
// With Options.Choose, package choice decides which chunks are the GPU's, and whether the load needs the kernel
// (choose.go). Otherwise the GPU gets every chunk that it accepts.
//
// # Tables
//
// The device's copy of the FIB follows each change: tables queue patches, the patcher
// batches them, and patchDMA applies them. The device repeats a lookup that overlapped with the reuse
// of an entry, like the readers of package trie. With several GPUs, each has a copy and serves some of
// the workers.
//
// # Low-latency path
//
// If the worker has no other chunk in flight, it copies the headers of a small chunk to the mailbox (inlined headers).
// The GPU writes the rewritten bytes to the mailbox, without a fence (inline completions), and the
// worker applies them to the frames (lowlatency_unsafe.go).
//
// # IPsec
//
// An IPsec gateway has another resident kernel, which encrypts and decrypts packets before the lookup. A
// chunk passes through the device once or twice (passes.go). The host assigns the sequence numbers, or lends the device
// ranges of them (lender.go), from which the device assigns them (seq_assign.go); several devices share them
// (seq_home.go). Of packets whose tunnel the device has found, the device writes the outer headers; of the others, the
// host applies the policies and writes the headers.
// The SA of received ESP is found by the device or by the host. In the last pass, a job beside each descriptor has the
// device's part. When the device has finished a pass, the lookup included, the host checks the replay window, records
// the number and counts lifetimes: for packets that are sealed in the first pass, at its end (endFirstPass
// in passes.go); for those that are opened there, of several chunks together (advance); for those with jobs, when the
// chunk is done (finishChunk).
//
// The device has a copy of the policies (policies.go) and admits most decrypted packets by itself; the
// host applies the policies to the others. Sequence numbers of a lost chunk are not reused. Keys are on the
// device from before an SA's first packet to the SA's deletion, when they are overwritten.
//
// # Failures
//
// A GPU that runs another process's time slice finishes nothing, like one that hangs. While a chunk is late,
// the CPU executes the worker's further chunks, and a timeout counts the time in which the GPU works (late.go).
//
// On a GPU timeout the worker drops the chunks on the GPU and uses the CPU engine. The GPU may still
// write to their frames, so the frames stay withheld until it has finished these chunks; after a pause
// the worker uses the GPU again. A driver error is final for the device: its context is destroyed,
// which releases the frames.
//
// # Devices
//
// The launch shape of a kernel follows from the device's limits (shape.go). Its streams can be confined to some
// multiprocessors (context.go). While the kernel is parked, the lookup tables can be released (release.go).
package gpu
