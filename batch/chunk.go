// Package batch describes packets in bulk.
//
// A worker receives frames into its UMEM and lists them in a Chunk. An engine reads the chunk's In
// column, rewrites the frames in place and writes the Out column. The worker then transmits, holds
// or frees each frame by its Result. A frame has one owner at any time: the kernel, the worker's
// pool, one of its queues, or one chunk.
package batch

import "time"

// Chunk is a batch of packets as parallel arrays: Out[i] is the result of In[i] for i below N. The
// worker writes In before it submits the chunk, the engine writes Out before the chunk is done. An
// engine that replaces a packet, as IPsec does, updates In.
type Chunk struct {
	N        int           // packets in the chunk, at most len(In)
	Retried  int           // number of leading packets, which have waited for a neighbor
	Epoch    uint64        // of the FIB when the chunk was submitted
	Lane     uint8         // of all packets, below MaxLanes; 0 comes first
	Full     bool          // closed because it was full: more packets may be waiting
	Cached   bool          // the worker has read the headers of all packets while it filled the chunk
	Deadline time.Duration // by Clock, for the transmission of the chunk; 0 for none
	Idle     time.Duration // of the worker without work, from its start to the submission of the chunk
	In       []Frame
	Out      []Result
	Stamps
}

// MaxLanes is the largest number of lanes. A lane is a class of packets with a deadline, and a share of each
// GPU that serves it first. Chunks of a lane are finished in the order of submission, those of different
// lanes in any order.
const MaxLanes = 4

// Stamps are the times at which a chunk passed the stages of the router, by Clock.
type Stamps struct {
	Received  time.Duration // start of the worker's iteration in which the first packet was received
	Submitted time.Duration // closed and passed to the engine
	Finished  time.Duration // the engine's results were seen
	Ordered   time.Duration // all earlier chunks were transmitted
	Sent      time.Duration // its packets were in the transmit rings, and the kernel was notified
}

var clockStart = time.Now()

// Clock reads the monotonic clock that stamps are taken from.
func Clock() time.Duration { return time.Since(clockStart) }
