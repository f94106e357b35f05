package metrics

import (
	"cmp"
	"strconv"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/dataplane"
)

var (
	engineChunks = desc("engine_chunks_total", "Chunks processed, by engine and the reason for choosing it: sooner (predicted to finish first), explored (to keep estimates fresh), configured; for the CPU also gpu_full, gpu_parked, gpu_late, gpu_failed, no_gpu.", "engine", "reason")
	gpuFailovers = desc("gpu_failovers_total", "Failovers from a GPU to the CPU, by cause: timeout (temporary: the GPU missed a deadline); until a restart: fault (driver error), table_full (route table exceeds GPU memory), bad_result (invalid result), mismatch (the CPU computed another result).", "cause")
	shadowChunks = desc("gpu_shadow_chunks_total", "Chunks of GPUs that the CPU repeated, by result: same, different (alert on it), skipped (the tables had changed).", "result")
)

var (
	workerBusy     = desc("worker_busy_seconds_total", "Time in which a worker had packets to move. Its rate is the load of the worker: at 1 packets are lost.", "worker")
	framesTotal    = desc("frames", "Packet buffers (frames) of a worker, excluding large frames.", "worker")
	framesFree     = desc("frames_free", "Free packet buffers (frames) of a worker. At 0 the worker receives nothing: alert on it.", "worker")
	framesWithheld = desc("frames_withheld", "Packet buffers (frames) of a worker that stay unused because a failed GPU could still write to them.", "worker")
)

// workers sends the load and the frame counts of workers.
func (ch sender) workers(s *dataplane.Stats) {
	for i, l := range s.Loads {
		ch.seconds(workerBusy, l.Busy, strconv.Itoa(i))
	}
	for i, f := range s.Frames {
		worker := strconv.Itoa(i)
		ch.gauge(framesTotal, float64(f.Total), worker)
		ch.gauge(framesFree, float64(f.Free), worker)
		ch.gauge(framesWithheld, float64(f.Withheld), worker)
	}
}

// engine sends chunk counts by engine. With GPUs, the CPU processes chunks that it finishes sooner, and chunks
// while the GPU is out of use, full or parked, or an older chunk there is late.
func (ch sender) engine(s *status.Snapshot) {
	e := &s.Engine
	var byGPU, byCPU, sooner, cpuExplored, gpuExplored, unplaced, parked, late, timeouts, same, different, skipped uint64
	failed := map[string]uint64{"fault": 0, "table_full": 0, "bad_result": 0, "mismatch": 0} // with zeros, so that alerts find the series
	for i := range e.Devices {
		d := &e.Devices[i]
		byGPU, byCPU, sooner = byGPU+d.Chunks, byCPU+d.ChunksByCPU, sooner+d.ChunksSooner
		cpuExplored, gpuExplored = cpuExplored+d.ExploredCPU, gpuExplored+d.ExploredGPU
		unplaced, timeouts = unplaced+d.ChunksNoSlot, timeouts+d.Timeouts
		parked, late = parked+d.ChunksParked, late+d.ChunksLate
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
	reason := "sooner"
	if e.Chosen == "configured" {
		reason = "configured"
	}
	ch.counter(engineChunks, byGPU-gpuExplored, "gpu", reason)
	ch.counter(engineChunks, gpuExplored, "gpu", "explored")
	ch.counter(engineChunks, byCPU, "cpu", "gpu_failed")
	ch.counter(engineChunks, sooner, "cpu", "sooner")
	ch.counter(engineChunks, cpuExplored, "cpu", "explored")
	ch.counter(engineChunks, unplaced, "cpu", "gpu_full")
	ch.counter(engineChunks, parked, "cpu", "gpu_parked")
	ch.counter(engineChunks, late, "cpu", "gpu_late")
}
