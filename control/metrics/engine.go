package metrics

import "github.com/warproute/warproute/control/status"

var (
	engineChunks = desc("engine_chunks_total", "Chunks that an engine decided on, and why that engine.", "engine", "reason")
	gpuFailovers = desc("gpu_failovers_total", "Times that a worker's GPU was late with a chunk and the CPU took over (timeout), and GPUs that failed for good (fault).", "cause")
)

// engine sends what engines did. With GPUs, the CPU decides while they are out, on
// chunks too small for them, and where a worker's blocks have others.
func (ch sender) engine(s *status.Snapshot) {
	e := &s.Engine
	var byGPU, byCPU, small, unplaced, timeouts, faults uint64
	for i := range e.Devices {
		d := &e.Devices[i]
		byGPU, byCPU, small = byGPU+d.Chunks, byCPU+d.ChunksByCPU, small+d.ChunksSmall
		unplaced, timeouts, faults = unplaced+d.ChunksUnplaced, timeouts+d.Timeouts, faults+d.Faults
	}
	ch.counter(gpuFailovers, timeouts, "timeout") // without a GPU too: what alerts ask for exists
	ch.counter(gpuFailovers, faults, "fault")
	if len(e.Devices) == 0 {
		ch.counter(engineChunks, s.Stats.Chunks, e.Name, e.Reason)
		return
	}
	ch.counter(engineChunks, byGPU, "gpu", e.Chosen)
	ch.counter(engineChunks, byCPU, "cpu", "gpu_failed")
	ch.counter(engineChunks, small, "cpu", "small_chunk")
	ch.counter(engineChunks, unplaced, "cpu", "gpu_full")
}
