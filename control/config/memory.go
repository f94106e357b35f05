package config

// Chunks of a worker. The CPU engine completes a chunk before the worker fills the next; a GPU
// processes several concurrently: in a gateway as many as fill it with the packets of one worker.
const (
	ChunksWithCPU   = 2
	ChunksWithGPU   = 8
	ChunksOfGateway = 32 // with a GPU
)

// ChunkFrames returns the number of frames of a worker for chunks of up to room packets each, and
// for pending and generated packets. Frames of queues are extra.
func ChunkFrames(chunks, room int) int { return (chunks + 1) * room }
