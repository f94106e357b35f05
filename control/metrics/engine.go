package metrics

import (
	"cmp"
	"strconv"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/dataplane"
)

var (
	engineChunks = desc("engine_chunks_total", "Chunks that an engine decided on, and why that engine.", "engine", "reason")
	gpuFailovers = desc("gpu_failovers_total", "Times that the CPU took over from a GPU: for a while, as it missed a worker's deadline (timeout); until the router restarts, as the driver reported an error (fault), as a result cannot be right (bad_result), or as the CPU came to another result (mismatch).", "cause")
	shadowChunks = desc("gpu_shadow_chunks_total", "Chunks of GPUs that the CPU was to repeat: with the same result, with another one (different: alert), or not repeated (skipped), as tables changed meanwhile.", "result")
)

var (
	framesTotal    = desc("frames", "Frames of memory that a worker has for packets, large frames not counted.", "worker")
	framesFree     = desc("frames_free", "Of these, frames that are in no ring, chunk or queue. At 0 the worker receives nothing more: alert.", "worker")
	framesWithheld = desc("frames_withheld", "Of these, frames that are not used because a failed GPU may still write to them.", "worker")
)

// frames sends what workers' frames are used for.
func (ch sender) frames(workers []dataplane.FrameStats) {
	for i, f := range workers {
		worker := strconv.Itoa(i)
		ch.gauge(framesTotal, float64(f.Total), worker)
		ch.gauge(framesFree, float64(f.Free), worker)
		ch.gauge(framesWithheld, float64(f.Withheld), worker)
	}
}

// engine sends what engines did. With GPUs, the CPU decides while they are out, on
// chunks too small for them, and where a worker's blocks have others.
func (ch sender) engine(s *status.Snapshot) {
	e := &s.Engine
	var byGPU, byCPU, small, unplaced, timeouts, same, different, skipped uint64
	failed := map[string]uint64{"fault": 0, "bad_result": 0, "mismatch": 0} // without a GPU too: what alerts ask for exists
	for i := range e.Devices {
		d := &e.Devices[i]
		byGPU, byCPU, small = byGPU+d.Chunks, byCPU+d.ChunksByCPU, small+d.ChunksSmall
		unplaced, timeouts = unplaced+d.ChunksUnplaced, timeouts+d.Timeouts
		same, different, skipped = same+d.ShadowSame, different+d.ShadowDifferent, skipped+d.ShadowSkipped
		if d.Faults > 0 {
			failed[cmp.Or(d.Cause, "fault")] += d.Faults
		}
	}
	ch.counter(gpuFailovers, timeouts, "timeout")
	for cause, n := range failed {
		ch.counter(gpuFailovers, n, cause)
	}
	if len(e.Devices) == 0 {
		ch.counter(engineChunks, s.Stats.Chunks, e.Name, e.Reason)
		return
	}
	ch.counter(shadowChunks, same, "same")
	ch.counter(shadowChunks, different, "different")
	ch.counter(shadowChunks, skipped, "skipped")
	ch.counter(engineChunks, byGPU, "gpu", e.Chosen)
	ch.counter(engineChunks, byCPU, "cpu", "gpu_failed")
	ch.counter(engineChunks, small, "cpu", "small_chunk")
	ch.counter(engineChunks, unplaced, "cpu", "gpu_full")
}
