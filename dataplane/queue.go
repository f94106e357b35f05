package dataplane

import "github.com/warproute/warproute/batch"

// Queue is a receive and transmit queue pair of a port: an AF_XDP socket (package afxdp) or memory
// (package memport). It uses the UMEM and the frame pool of its worker, and only this worker calls
// it, once per burst. No method blocks or allocates.
type Queue interface {
	// Refill gives frames of the pool to the port to receive into, until the port has enough or the
	// pool is empty.
	Refill()
	// Receive returns received frames in dst[:n], with Addr, Len and the queue's port, and gives
	// them to the caller.
	Receive(dst []batch.Frame) (n int)
	// Transmit takes the first n frames of src and starts their transmission. n is less than
	// len(src) if the transmit ring stays full; the caller keeps the rest.
	Transmit(src []batch.Frame) (n int)
	// Reclaim puts transmitted frames back into the pool, retries transmissions that could not be
	// started, and returns the number of TX descriptors that are not completed.
	Reclaim() (transmitting int)
	// FD returns the file descriptor for poll(2), -1 for none.
	FD() int
}

// Engine decides on the packets of chunks and rewrites them in place. Each worker has its own. Chunks of
// a lane finish in the order of submission, and do not wait for those of other lanes.
type Engine interface {
	// Name returns the name in `show engine` and metrics: "cpu" or "gpu".
	Name() string
	// Submit takes a chunk. The engine owns it until Done returns true.
	Submit(c *batch.Chunk)
	// Done reports whether the engine has finished the chunk, with results that passed its checks. It does
	// not wait for the chunk. A GPU engine sleeps in it for up to 11 ms, once for each compared chunk
	// (shadow) whose results differ, since the FIB may have changed.
	Done(c *batch.Chunk) bool
	// Quiesced reports whether the engine can no longer write to the frames of packets with the
	// verdict batch.Lost. It does not block.
	Quiesced() bool
}

// Backpressure is implemented by engines for which waiting can be better than taking another chunk.
type Backpressure interface {
	// Ready reports whether to submit a chunk of a lane now. It is true when the engine has no chunk of the lane.
	Ready(lane uint8) bool
}
