package status

import (
	"fmt"
	"strings"
	"time"
)

// Device is a GPU in use. Counters are since the start of the router.
type Device struct {
	Number          int    `json:"number"`               // CUDA device ordinal
	Name            string `json:"name"`                 // device name
	PCI             string `json:"pci"`                  // PCI address
	Sharing         string `json:"sharing"`              // how processes share the device: time_slicing, mps, mig, exclusive
	SharingLatency  string `json:"sharing_latency"`      // what sharing means for latency, as a sentence
	Multiprocessors int    `json:"multiprocessors"`      // multiprocessors that the router may use
	Shape           Shape  `json:"shape"`                // launch shape of the kernel
	Blocks          int    `json:"blocks"`               // thread blocks of the kernel
	Awake           int    `json:"awake"`                // thread blocks that wait for packets; the others rest
	Parked          bool   `json:"parked"`               // the kernel does not run, as the CPU carries the load
	Wakes           uint64 `json:"wakes"`                // launches of the kernel
	WakeError       string `json:"wake_error,omitempty"` // why the parked kernel cannot return
	Workers         int    `json:"workers"`              // workers assigned to the device
	WorkersOut      int    `json:"workers_out"`          // workers of the device that use the CPU during an outage
	InFlight        int    `json:"in_flight"`            // chunks on the device, without abandoned ones
	Unfinished      int    `json:"unfinished"`           // abandoned chunks that the device has not finished
	Chunks          uint64 `json:"chunks"`               // chunks processed by the device
	ChunksByCPU     uint64 `json:"chunks_by_cpu"`        // chunks processed by the CPU during an outage
	ChunksSooner    uint64 `json:"chunks_sooner"`        // chunks processed by the CPU because it was predicted to finish them first
	ExploredCPU     uint64 `json:"explored_cpu"`         // chunks processed by the CPU to keep its estimates fresh
	ExploredGPU     uint64 `json:"explored_gpu"`         // part of chunks that the device processed to keep its estimates fresh
	ChunksNoSlot    uint64 `json:"chunks_no_slot"`       // chunks processed by the CPU because too few of the device's blocks were free
	ChunksParked    uint64 `json:"chunks_parked"`        // chunks processed by the CPU because the kernel was parked
	ChunksLate      uint64 `json:"chunks_late"`          // chunks processed by the CPU because an older one on the device was late

	TimesCPU ChunkTimes `json:"times_cpu"` // times of chunks on the CPU
	TimesGPU ChunkTimes `json:"times_gpu"` // times of chunks on the device
	Load     float64    `json:"load"`      // share of a core that the CPU would need to process all chunks, of the busiest worker

	Shadow          int    `json:"shadow"`           // 1 in this many chunks is repeated on the CPU and compared; 0: none
	ShadowSame      uint64 `json:"shadow_same"`      // repeated chunks with the same result
	ShadowDifferent uint64 `json:"shadow_different"` // repeated chunks with a different result
	ShadowSkipped   uint64 `json:"shadow_skipped"`   // chunks not compared because the tables had changed

	Timeouts   uint64  `json:"timeouts"`         // temporary failovers of workers
	Recoveries uint64  `json:"recoveries"`       // ended temporary failovers of workers
	Faults     uint64  `json:"faults"`           // permanent failovers
	Cause      string  `json:"cause,omitempty"`  // cause of the outage: timeout, fault, table_full, bad_result, mismatch
	Outage     *Outage `json:"outage,omitempty"` // current outage
}

// Shape is the launch shape of a kernel.
type Shape struct {
	Warps                   int  `json:"warps"`                     // warps of a thread block
	SharedBytes             int  `json:"shared_bytes"`              // shared memory of a thread block
	StagingBytes            int  `json:"staging_bytes"`             // staging buffer of a warp; 0: none, as without IPsec
	BlocksPerMultiprocessor int  `json:"blocks_per_multiprocessor"` // thread blocks that fit on a multiprocessor
	CBCByCPU                bool `json:"cbc_by_cpu"`                // the kernel does not decrypt AES-CBC: the CPU engine does
}

// ChunkTimes are mean times of chunks on an engine in about the last second, from submission to the result.
type ChunkTimes struct {
	PredictedNS int64   `json:"predicted_ns"` // predicted at submission, ns
	MeasuredNS  int64   `json:"measured_ns"`  // measured, ns
	Error       float64 `json:"error"`        // mean of the differences, each as a share of the measured time
}

// Outage is a period in which some or all workers do not use a device.
type Outage struct {
	Since time.Time `json:"since"`  // start of the outage
	Why   string    `json:"reason"` // reason of the outage, as a sentence
}

// predictions writes the times of chunks.
func (d *Device) predictions(t *table) {
	times := func(engine string, c ChunkTimes) {
		if c.MeasuredNS > 0 {
			t.row("", fmt.Sprintf("chunks on the %s: predicted %.1f µs, measured %.1f µs, mean error %.0f%%", engine, float64(c.PredictedNS)/1e3, float64(c.MeasuredNS)/1e3, 100*c.Error))
		}
	}
	times("GPU", d.TimesGPU)
	times("CPU", d.TimesCPU)
	if d.Load > 0 {
		t.row("", fmt.Sprintf("load of the CPU alone: %.0f%% of a core in the busiest worker", 100*d.Load))
	}
}

// rows writes the device, its chunk counters, and its failures.
func (d *Device) rows(t *table) {
	kernel := fmt.Sprintf("kernel of %s, %d awake", count(d.Blocks, "block"), d.Awake)
	if d.Parked {
		kernel = "kernel parked"
	}
	if d.WakeError != "" {
		kernel += "; IT CANNOT RETURN: " + d.WakeError
	}
	t.row(fmt.Sprintf("GPU %d", d.Number), fmt.Sprintf("%s at %s, %s", d.Name, d.PCI, kernel))
	if s := &d.Shape; s.Warps > 0 {
		t.row("", fmt.Sprintf("%s, up to %s each: %s, %d bytes of shared memory", count(d.Multiprocessors, "multiprocessor"),
			count(s.BlocksPerMultiprocessor, "block"), count(s.Warps, "warp"), s.SharedBytes))
		if s.CBCByCPU {
			t.row("", "does not decrypt AES-CBC: the CPU engine does")
		}
	}
	if d.Sharing != "" {
		t.row("", fmt.Sprintf("sharing: %s: %s", strings.ReplaceAll(d.Sharing, "_", " "), d.SharingLatency))
	}
	t.row("", fmt.Sprintf("%s, %s in flight; %d processed by the GPU (%d explored); by the CPU: %d sooner, %d explored, %d without a free slot, %d while the kernel was parked, %d behind a late chunk, %d during outages",
		count(d.Workers, "worker"), count(d.InFlight, "chunk"), d.Chunks, d.ExploredGPU, d.ChunksSooner, d.ExploredCPU, d.ChunksNoSlot, d.ChunksParked, d.ChunksLate, d.ChunksByCPU))
	d.predictions(t)
	if d.Shadow > 0 {
		t.row("", fmt.Sprintf("shadow: 1 in %s repeated by the CPU: %d same, %d different, %d skipped because tables changed",
			count(d.Shadow, "chunk"), d.ShadowSame, d.ShadowDifferent, d.ShadowSkipped))
	}
	if d.Timeouts+d.Faults > 0 {
		t.row("", fmt.Sprintf("%s, %s", count(d.Timeouts+d.Faults, "failover"), counted(d.Recoveries, "recovery", "recoveries")))
	}
	if o := d.Outage; o != nil {
		t.row("", fmt.Sprintf("outage: %s on the CPU since %s, %s unfinished: %s",
			count(d.WorkersOut, "worker"), o.Since.Format(time.DateTime), count(d.Unfinished, "chunk"), o.Why))
	}
}
