package ladder

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/bench/pcie"
	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/internal/cheader"
	"github.com/warproute/warproute/internal/race"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
)

func TestCHeader(t *testing.T) {
	h := &cheader.Header{}
	h.Comment("Launch shape: launched.go.")
	h.Define("LADDER_THREADS", threads, "per block")
	h.Comment("Resident kernel: resident.go.")
	h.Define("RESIDENT_THREADS", residentThreads, "per block")
	h.Define("RESIDENT_SCRATCH", residentScratch, "bytes of shared memory per warp")
	h.Define("RESIDENT_POLLED", residentPolled, "packets of a chunk whose warps all poll for the next one")
	h.Define("RESIDENT_STOP", residentStop, "instead of a number of packets: the block exits")
	h.Struct("route", route{}, "result", "adjacency", "port", "ipv4", "unused")
	h.Struct("copies", copiesParams{}, "tables", "frames", "headers", "routes", "results", "rewritten", "n", "unused")
	h.Struct("fused", fusedParams{}, "tables", "umem", "frames", "results", "done", "finished", "n", "seq")
	h.Struct("resident", residentParams{}, "tables", "umem", "slots", "slot_bytes", "results")
	h.Check(t, "layout.h")
}

// options returns options of the rungs whose kernels a fake driver can run.
func options(t *testing.T, fault string) Options {
	t.Helper()
	return Options{
		Driver: testutil.FakeGPU(t, "testdata/fakegpu.c", fault), Table: "random", Routes: 1000, Seed: 1, Sizes: []int{1, 65, 1024}, InFlight: 3,
		Rungs: []string{"launches", "graph", "fused", "resident"}, Duration: 5 * time.Millisecond, Rounds: 2, Load: 0.5, least: 4096,
		limits: func(string, int, []pcie.Shape) ([]float64, error) { return []float64{200}, nil },
	}
}

func quiet(string, ...any) {}

func TestRungsAgreeWithTheCPUEngine(t *testing.T) {
	o := options(t, "")
	r, err := Run(o, quiet)
	require.NoError(t, err)
	want := 0
	for _, n := range o.Sizes {
		want += len(o.Rungs) * (o.least / n * n)
	}
	if r.Verified != want || r.GPU != "Fake 0" || r.Routes != 1000 || r.PCIe != 200 || len(r.Points) != len(o.Rungs)*len(o.Sizes) {
		t.Errorf("%+v, want %d verified packets", r, want)
	}
	for i, p := range r.Points {
		if p.Rung != o.Rungs[i/len(o.Sizes)] || p.Packets != o.Sizes[i%len(o.Sizes)] {
			t.Errorf("point %d: %s, %d packets", i, p.Rung, p.Packets)
		}
		if p.Mpps <= 0 || p.One <= 0 || p.P50 <= 0 || p.P99 < p.P50 || p.LoadP50 <= 0 || p.LoadP99 < p.LoadP50 || p.ExpressP50 <= 0 || p.ExpressP99 < p.ExpressP50 || (p.Kernel > 0) != (p.Rung != "resident") || len(p.Rounds) != o.Rounds {
			t.Errorf("%+v", p)
		}
		if p.InPlace != float64(p.Packets)/200 {
			t.Errorf("%s, %d packets: %v µs in place", p.Rung, p.Packets, p.InPlace)
		}
	}
}

func TestWrongResultsAreNotMeasured(t *testing.T) {
	for kernel, rung := range map[string]string{
		"copies_1_look_up": "launches", "copies_2_rewrite": "graph", "copies_3_gather": "launches", "fused": "fused", "resident_block": "resident",
	} {
		if race.Enabled && rung == "launches" {
			continue
		}
		o := options(t, "wrong "+kernel)
		o.Rungs = []string{rung}
		_, err := Run(o, quiet)
		if err == nil || !strings.Contains(err.Error(), `measure rung "`+rung+`": verify chunks of 1 before measuring: packet`) {
			t.Errorf("kernel %s is wrong: %v", kernel, err)
		}
	}
}

func TestWrongResultsOfAMeasurementAreFound(t *testing.T) {
	o := options(t, "later fused")
	o.Rungs, o.Sizes, o.Duration = []string{"fused"}, []int{1024}, 50*time.Millisecond
	for range 100 { // until the 2,000th chunk
		if _, err := Run(o, quiet); err != nil {
			if !strings.Contains(err.Error(), "verify after measuring: packet") && !strings.Contains(err.Error(), "before measuring: packet") {
				t.Error(err)
			}
			return
		}
	}
	t.Error("a wrong byte was not found")
}

func TestFailedCallsEndTheMeasurement(t *testing.T) {
	rungs := []string{"launches", "graph", "fused", "resident"}
	if race.Enabled {
		rungs = rungs[3:]
	}
	for fault, want := range map[string]string{"launch": "CUDA_ERROR_INVALID_VALUE", "fault": "CUDA_ERROR_ILLEGAL_ADDRESS"} {
		for _, rung := range rungs {
			o := options(t, fault)
			o.Rungs = []string{rung}
			if _, err := Run(o, quiet); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, fault %q: %v; want %s", rung, fault, err, want)
			}
		}
	}
}

func TestSamplesGiveMedians(t *testing.T) {
	p := newPoint("fused", 60, []sample{{mpps: 3, p50: 1, p99: 9}, {mpps: 1, p50: 2, p99: 8}, {mpps: 2, p50: 3, p99: 7}}, 300)
	if p.Mpps != 2 || p.P50 != 2 || p.P99 != 8 || p.InPlace != 0.2 || !slices.Equal(p.Rounds, []float64{3, 1, 2}) {
		t.Errorf("%+v", p)
	}
}

func TestRunRejectsInvalidOptions(t *testing.T) {
	for want, change := range map[string]func(o *Options){
		"chunks of 5000 packets":  func(o *Options) { o.Sizes = []int{5000} },
		"no sizes":                func(o *Options) { o.Sizes = nil },
		`rung "copies": write on`: func(o *Options) { o.Rungs = []string{"copies"} },
		"1 chunks in flight":      func(o *Options) { o.InFlight = 1 },
		"a duration of 0s":        func(o *Options) { o.Duration = 0 },
		"0 rounds":                func(o *Options) { o.Rounds = 0 },
		"a load of 2":             func(o *Options) { o.Load = 2 },
	} {
		o := Options{Sizes: []int{60}, Rungs: Names(), InFlight: 2, Duration: 1, Rounds: 1, Load: 0.7, Driver: filepath.Join(t.TempDir(), "libcuda.so.1")}
		if _, err := Run(o, quiet); !errors.Is(err, cuda.ErrNoDriver) {
			t.Errorf("without a driver: %v", err)
		}
		change(&o)
		if _, err := Run(o, quiet); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
