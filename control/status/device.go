package status

import (
	"fmt"
	"time"
)

// Device is a GPU that workers' engines use; counts are since the start.
type Device struct {
	Number         int    `json:"number"` // as the driver counts
	Name           string `json:"name"`
	PCI            string `json:"pci"`
	Mode           string `json:"mode"`            // how chunks reach it: resident, launched
	Blocks         int    `json:"blocks"`          // of threads that workers have, a chunk in flight each or a part of one,
	Room           int    `json:"room"`            // of so many that fit
	Workers        int    `json:"workers"`         // that were given it
	WorkersOut     int    `json:"workers_out"`     // that do without it now
	InFlight       int    `json:"in_flight"`       // chunks that it has now
	Unfinished     int    `json:"unfinished"`      // chunks that were given up, and it has not finished
	Chunks         uint64 `json:"chunks"`          // that it decided on
	ChunksByCPU    uint64 `json:"chunks_by_cpu"`   // of its workers, that the CPU decided on, as it was out
	ChunksSmall    uint64 `json:"chunks_small"`    // as they were small,
	ChunksUnplaced uint64 `json:"chunks_unplaced"` // or as the worker's blocks had others
	// One in Shadow chunks, if it is not 0, is compared with the CPU's result: the same, another
	// one, or skipped, as the tables changed meanwhile.
	Shadow          int    `json:"shadow"`
	ShadowSame      uint64 `json:"shadow_same"`
	ShadowDifferent uint64 `json:"shadow_different"`
	ShadowSkipped   uint64 `json:"shadow_skipped"`

	Timeouts uint64  `json:"timeouts"`        // times that it was late, and a worker did without
	Returns  uint64  `json:"returns"`         // times that a worker used it again
	Faults   uint64  `json:"faults"`          // after which no worker uses it again
	Cause    string  `json:"cause,omitempty"` // of the outage: timeout, fault, bad_result, mismatch
	Outage   *Outage `json:"outage,omitempty"`
}

// Outage is since when a worker or all do without a device, and why.
type Outage struct {
	Since time.Time `json:"since"`
	Why   string    `json:"why"`
}

// rows writes a line for what it is, and for what it does, and for its failures.
func (d *Device) rows(t *table) {
	t.row(fmt.Sprintf("GPU %d", d.Number), fmt.Sprintf("%s at %s, %s kernel, %d of %d blocks", d.Name, d.PCI, d.Mode, d.Blocks, d.Room))
	t.row("", fmt.Sprintf("%d workers, %d chunks in flight; %d decided on; by the CPU %d while it was out, %d as they were small, %d as its blocks had others",
		d.Workers, d.InFlight, d.Chunks, d.ChunksByCPU, d.ChunksSmall, d.ChunksUnplaced))
	if d.Shadow > 0 {
		t.row("", fmt.Sprintf("the CPU repeats 1 in %d chunks: %d results were the same, %d differed, %d chunks skipped as tables changed",
			d.Shadow, d.ShadowSame, d.ShadowDifferent, d.ShadowSkipped))
	}
	if d.Timeouts+d.Faults > 0 {
		t.row("", fmt.Sprintf("taken out %d times, back %d times", d.Timeouts+d.Faults, d.Returns))
	}
	if o := d.Outage; o != nil {
		t.row("", fmt.Sprintf("%d workers without it, the first since %s, %d chunks unfinished: %s",
			d.WorkersOut, o.Since.Format(time.DateTime), d.Unfinished, o.Why))
	}
}
