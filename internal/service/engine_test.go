package service

import (
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/dataplane/gpu"
	"github.com/warproute/warproute/dataplane/gpu/choice"
)

func TestEngineIsGPUWhileAnyWorkerUsesOne(t *testing.T) {
	start := status.EngineState{Name: "gpu", Reason: "gpu_found", Why: "there is one", HugePages: true}
	since := time.Now()
	late := &gpu.Outage{Since: since, Why: errors.New("late")}
	fault := &gpu.Outage{Since: since, Why: errors.New("fault")}
	for _, c := range []struct {
		name                string
		devices             []gpu.State
		engine, reason, why string
	}{
		{"both work", []gpu.State{{Workers: 2}, {Workers: 1}}, "gpu", "gpu_found", "there is one"},
		{"one is out", []gpu.State{{Workers: 2, WorkersOut: 2, Outage: fault, Failed: true}, {Workers: 1}}, "gpu", "gpu_found", "there is one"},
		{"one worker is left", []gpu.State{{Workers: 2, WorkersOut: 1, Outage: late}, {Workers: 1, WorkersOut: 1, Outage: fault}}, "gpu", "gpu_found", "there is one"},
		{"all are out", []gpu.State{{Workers: 2, WorkersOut: 2, Outage: late}, {Workers: 1, WorkersOut: 1, Outage: fault}}, "cpu", "gpu_failed", "the GPU is out: late"},
		{"no worker yet", []gpu.State{{}}, "gpu", "gpu_found", "there is one"},
	} {
		e := withDevices(start, c.devices)
		if e.Name != c.engine || e.Reason != c.reason || e.Why != c.why || e.Chosen != "gpu_found" || !e.HugePages || len(e.Devices) != len(c.devices) {
			t.Errorf("%s: %+v", c.name, e)
		}
	}
	got := withDevices(start, []gpu.State{{
		Number: 3, Info: cuda.DeviceInfo{Name: "H200", PCIBusID: "0000:1b:00.0"}, Sharing: cuda.Sharing{Mode: cuda.MPS, Percent: 50}, Multiprocessors: 66, Shape: gpu.Shape{Warps: 8, Shared: 21, Staging: 22, BlocksPerMultiprocessor: 1, WithoutCBC: true},
		WakeErr: errors.New("no memory"), KernelParked: 17, GPULate: 18, Blocks: 16, Workers: 2, WorkersOut: 1,
		InFlight: 4, Lost: 5, ByGPU: 6, ByCPU: 7, CPUSooner: 11, CPUExplored: 19, GPUExplored: 20, Load: 0.5, Times: [choice.NumEngines]choice.Means{{Predicted: 20, Measured: 21, Error: 0.1}, {Predicted: 22, Measured: 23, Error: 0.2}}, NoFreeSlot: 12, Shadow: 13, ShadowSame: 14, ShadowDifferent: 15, ShadowSkipped: 16, Timeouts: 8, Recoveries: 9, Failed: true, Cause: gpu.CauseFault, Outage: late,
	}}).Devices[0]
	want := status.Device{
		Number: 3, Name: "H200", PCI: "0000:1b:00.0", Sharing: "mps", SharingLatency: gpu.SharingLatency(cuda.Sharing{Mode: cuda.MPS, Percent: 50}),
		Multiprocessors: 66, Shape: status.Shape{Warps: 8, SharedBytes: 21, StagingBytes: 22, BlocksPerMultiprocessor: 1, CBCByCPU: true},
		WakeError: "no memory", ChunksParked: 17, ChunksLate: 18, Blocks: 16, Workers: 2, WorkersOut: 1,
		InFlight: 4, Unfinished: 5, Chunks: 6, ChunksByCPU: 7, ChunksSooner: 11, ExploredCPU: 19, ExploredGPU: 20, Load: 0.5, TimesCPU: status.ChunkTimes{PredictedNS: 20, MeasuredNS: 21, Error: 0.1}, TimesGPU: status.ChunkTimes{PredictedNS: 22, MeasuredNS: 23, Error: 0.2}, ChunksNoSlot: 12, Shadow: 13, ShadowSame: 14, ShadowDifferent: 15, ShadowSkipped: 16, Timeouts: 8, Recoveries: 9, Faults: 1, Cause: "fault", Outage: &status.Outage{Since: since, Why: "late"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestEngineSaysWhatGPUsCannot: show engine has the reasons.
func TestEngineSaysWhatGPUsCannot(t *testing.T) {
	if text := limitsOf(&gpu.Devices{}); text != "" {
		t.Errorf("GPUs without limits: %q", text)
	}
	want := "; not used: use GPU 1: busy; the host assigns the sequence numbers of ESP, which is slower: no access"
	if text := limitsOf(&gpu.Devices{Unusable: []error{errors.New("use GPU 1: busy")}, HostNumbers: errors.New("no access")}); text != want {
		t.Errorf("%q, want %q", text, want)
	}
}

func TestLookupOnGPUExplainsTheMissingGPU(t *testing.T) {
	s := &Service{engine: engine{state: status.EngineState{Name: "cpu", Why: "no driver for a GPU is installed"}}}
	for query, want := range map[string]string{
		"addr=192.0.2.1&engine=gpu":  "the router uses no GPU: its engine is cpu, as no driver for a GPU is installed; ask without --engine gpu",
		"addr=192.0.2.1&engine=fpga": `engine "fpga" is neither cpu nor gpu`,
	} {
		if _, err := s.lookup(httptest.NewRequest("GET", "/route?"+query, nil)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", query, err, want)
		}
	}
}

// Chunks have the limits that docs/reference/configuration.md promises.
func TestLimitsOfChunks(t *testing.T) {
	gpus := &gpu.Devices{All: make([]*gpu.Device, 1)}
	for _, c := range []struct {
		what           string
		gpus           *gpu.Devices
		ipsec          *ipsecGateway
		workers        int
		batch          config.Batch
		packets, bytes int
	}{
		{"forwarding", nil, nil, 8, config.Batch{}, 1024, 0},
		{"forwarding with a GPU", gpus, nil, 8, config.Batch{}, 1024, 0},
		{"gateway", nil, &ipsecGateway{}, 8, config.Batch{}, 1024, 0},
		{"gateway with a GPU", gpus, &ipsecGateway{}, 8, config.Batch{}, 256, 98_304},
		{"gateway with a GPU and one worker", gpus, &ipsecGateway{}, 1, config.Batch{}, 256, 393_216},
		{"as configured", gpus, &ipsecGateway{}, 8, config.Batch{MaxPackets: 2048, MaxBytes: 1 << 20}, 2048, 1 << 20},
	} {
		s := &Service{engine: engine{gpus: c.gpus}, ipsec: c.ipsec}
		s.memory.workers = make([]afxdp.WorkerMemory, c.workers)
		cfg := config.Default("a", "b")
		cfg.Batch = c.batch
		if packets, bytes := s.maxPackets(cfg), s.maxBytes(cfg); packets != c.packets || bytes != c.bytes {
			t.Errorf("%s: chunks of up to %d packets and %d bytes, want %d and %d", c.what, packets, bytes, c.packets, c.bytes)
		}
	}
}
