// Package choice chooses the engine of each chunk of a worker, by learned costs: the CPU, that is the worker
// itself, or the GPU.
//
//	Chooser   chooses for each chunk, and learns from it                        (choose.go, observe.go)
//	traffic   decides which engine serves the current traffic sooner           (traffic.go)
//	limit     measures the GPU while the worker waits for it                   (limit.go)
//	estimate  learns the cost of chunks of a class on an engine                (estimate.go)
//	Load      share of a core that the CPU engine would need, for parking      (load.go)
//	large     measures packets in large chunks of the CPU, for the load        (large.go)
//	Accuracy  predicted and measured times, for operators                      (accuracy.go)
//
// Chunks of a lane complete in order. A chunk on the CPU behind one on the GPU gains nothing, so single
// chunks cannot be compared alone: once per millisecond, the engine that serves all of the traffic sooner
// becomes the usual one, and a chunk leaves it only for a clear gain.
package choice

import (
	"time"

	"github.com/warproute/warproute/batch"
)

// Engine is an engine that processes chunks.
type Engine uint8

const (
	CPU        Engine = iota // the worker is blocked until the chunk is done
	GPU                      // the worker is blocked for the host's part of the work
	NumEngines = iota
)

// Class is an operation. Each has costs of its own.
type Class uint8

const (
	Forward    Class = iota // few or no packets are encrypted or decrypted
	AEAD                    // AES-GCM or ChaCha20-Poly1305
	HMAC                    // a cipher with HMAC
	NumClasses = iota
)

// State is whether a GPU accepts a chunk.
type State uint8

const (
	Ready  State = iota
	Full         // no free slot
	Parked       // the kernel is stopped, as the CPU carries the load easily
	Out          // failed, or a GPU timeout
	Late         // an older chunk of the worker is late, or was deferred
)

// Reason is why a chunk has its engine.
type Reason uint8

const (
	Sooner     Reason = iota // finishes the chunk first
	Explored                 // slower, and its estimate is old
	GPUFull                  // CPU: the GPU has no free slot
	GPUParked                // CPU: the GPU is parked
	GPUOut                   // CPU: the GPU is out of use
	GPULate                  // CPU: an older chunk on the GPU is late, or was deferred
	NumReasons = iota
)

// Work describes a chunk.
type Work struct {
	Packets, Bytes int
	Class          Class
	Full           bool // more packets may be waiting
}

// Situation describes the worker and its GPU at the submission of a chunk.
type Situation struct {
	Now     time.Duration // by batch.Clock
	Idle    time.Duration // of the worker since its start; negative if unknown
	Lane    uint8         // below batch.MaxLanes
	GPU     State
	Behind  bool // the CPU could not begin before the GPU has finished
	Backlog int  // bytes of chunks of all workers that the GPU has not finished
}

const maxLanes = batch.MaxLanes
