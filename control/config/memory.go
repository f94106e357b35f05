package config

// Chunks of a worker. The CPU engine completes a chunk before the worker fills the next; a GPU
// processes several concurrently.
const (
	ChunksWithCPU = 2
	ChunksWithGPU = 8
)

// ChunkFrames returns the number of frames of a worker for chunks of up to room packets each, and
// for pending and generated packets. Frames of queues are extra.
func ChunkFrames(chunks, room int) int { return (chunks + 1) * room }
