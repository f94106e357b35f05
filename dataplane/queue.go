package dataplane

import "github.com/warproute/warproute/batch"

// Queue is one receive and transmit queue of a port, as its worker sees it: an
// AF_XDP socket (package afxdp) or memory that plays back frames (memport). It
// is made with the worker's UMEM and frame pool, and only that worker calls it.
// Each method is called once a burst, never once a packet, and none of them
// blocks or allocates.
type Queue interface {
	// Refill takes frames from the pool and gives them to the port to receive
	// into, until it has all that it can use or the pool is empty.
	Refill()
	// Receive returns received frames in dst[:n] and gives them to the caller.
	// It sets Addr, Len and Port of each: the port is the queue's.
	Receive(dst []batch.Frame) (n int)
	// Transmit takes the first n frames of src and starts sending them; n is
	// less than len(src) when the transmit ring stays full. The rest stays the
	// caller's.
	Transmit(src []batch.Frame) (n int)
	// Reclaim puts the frames that have been sent back into the pool, starts
	// again what could not be started before, and reports how many frames are
	// still being sent.
	Reclaim() (pending int)
	// FD is what poll(2) waits on for received frames, -1 where nothing can.
	FD() int
}

// Engine decides on the packets of chunks and rewrites them in place. A worker
// has one of its own. Chunks are done in the order of their submission.
type Engine interface {
	// Name is what `show engine` and metrics call it: "cpu" or "gpu".
	Name() string
	// Submit takes a chunk, which stays the engine's until Done reports true.
	Submit(c *batch.Chunk)
	// Done reports whether the engine has finished with the chunk. It does not block.
	Done(c *batch.Chunk) bool
	// Quiesced reports whether the engine can no longer write to the frames of packets
	// whose verdict was batch.Lost. It does not block.
	Quiesced() bool
}
