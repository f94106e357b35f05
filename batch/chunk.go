// Package batch describes packets in bulk.
//
// A worker receives frames into its UMEM and lists them in a Chunk; an engine
// reads the chunk's In column, works on the frames in place and writes the Out
// column; the worker then transmits, holds or frees each frame by its Result. A
// frame has one owner at any time: the kernel, the worker's pool, its hold, or one
// chunk.
package batch

import "time"

// Frame describes one frame in a worker's UMEM. It is 8 bytes, so that a GPU
// thread reads it in one load, and it has the same layout on both sides.
type Frame struct {
	Addr uint32 // of the first byte of the Ethernet header, in bytes from the start of the UMEM
	Len  uint16 // in bytes, without FCS
	Port uint16 // that received it, and marks
}

// Marks beside the port that received a frame.
const (
	// Secured: the policies of IPsec were applied to the packet, which may be another
	// one by now, and must not meet them again.
	Secured = 1 << 15
	// Own: the router made the packet, because of one that it received there.
	Own = 1 << 14
	// Cleared: as Secured, and the packet may leave in clear. While it waits, policies may
	// come that protect it, so it meets those of leaving again before it goes. Without
	// Secured, it has met those of entering alone.
	Cleared = 1 << 13
	// Merged: the router reassembled the packet, of IPv6, from fragments of its source, and may
	// fragment it again.
	Merged = 1 << 12
)

// Ingress is the port that received the frame.
func (f Frame) Ingress() uint16 { return f.Port &^ (Secured | Own | Cleared | Merged) }

// Result is an engine's answer for one frame, in 8 bytes as Frame.
type Result struct {
	Addr    uint32 // forward: where the frame now starts; hold: the adjacency that is unresolved; drop as mtu_exceeded: maybe MayCut, as fragments_missing: maybe Expected
	Len     uint16 // forward: its length, L2 padding trimmed; drop as mtu_exceeded: the size that fits
	Verdict Verdict
}

// MayCut says that the router is the source of a packet that is too large, whatever it
// carries, and may fragment it, in IPv6 too.
const MayCut = 1<<32 - 1

// Expected says that a security association is there for a fragment. Fragments of others make
// room for it.
const Expected = 1

// Chunk is a batch of packets on its way through the router, as parallel
// arrays: Out[i] answers In[i] for every i below N. Both columns live in memory
// from NewSlab, which a GPU can pin. In is written by the worker before it
// submits the chunk, Out by the engine before the chunk is done; where the engine made
// another packet of one, as IPsec does, In says where that is.
type Chunk struct {
	N       int    // packets in the chunk, at most len(In)
	Retried int    // how many of them, the first ones, had waited for a neighbour
	Epoch   uint64 // of the forwarding base when the chunk was submitted
	In      []Frame
	Out     []Result
	Stamps
}

// Stamps are the times at which a chunk passed the stages of the router, in
// time since an arbitrary start (see Clock).
type Stamps struct {
	Received  time.Duration // its first packet was taken from a receive ring
	Submitted time.Duration // sealed and handed to the engine
	Done      time.Duration // the engine's results were seen
	Ordered   time.Duration // every chunk before it had been transmitted
	Sent      time.Duration // its packets were in the transmit rings and the kernel told
}

var clockStart = time.Now()

// Clock reads the monotonic clock that stamps are taken from.
func Clock() time.Duration { return time.Since(clockStart) }
