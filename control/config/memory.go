package config

// How many chunks a worker has. The CPU engine finishes one before the worker
// fills the next; a GPU works on several at once.
const (
	ChunksWithCPU = 2
	ChunksWithGPU = 8
)

// ChunkFrames is how many frames of memory a worker keeps for so many chunks with room for
// so many packets each, and for packets that wait or that it makes. Those of its queues come
// on top.
func ChunkFrames(chunks, room int) int { return (chunks + 1) * room }
