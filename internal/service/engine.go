package service

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/gpu"
	"github.com/warproute/warproute/dataplane/gpu/choice"
	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/umem"
)

// The CPU decides on reassembled datagrams, which fit no frame, with either engine.
var _ = [...]dataplane.ReassembledEngine{(*cpu.Engine)(nil), (*gpu.Engine)(nil)}

// engine is the selected engine.
type engine struct {
	gpus  *gpu.Devices // nil: CPU only
	mu    sync.Mutex   // guards state once the router runs
	state status.EngineState
}

// openEngine selects the engine by the configuration. It runs while nothing changes the
// FIB. An engine that is configured by name and cannot run is an error.
func (s *Service) openEngine() error {
	e := &s.engine.state
	e.Name, e.MaxDelay = "cpu", s.cfg.Batch.MaxDelay
	defer func() { e.MaxPackets = s.maxPackets(s.cfg) }()
	if s.cfg.Engine == config.EngineCPU {
		e.Reason, e.Why = "configured", "the configuration asks for it"
		return nil
	}
	workers, _, err := countWorkers(s.initial)
	if err != nil {
		return err
	}
	o := gpu.Options{PartialChecksums: s.partialChecksums, Shadow: s.cfg.Shadow, Workers: workers, Choose: s.cfg.Engine == config.EngineAuto,
		Park: s.cfg.GPU.Park, Multiprocessors: s.cfg.GPU.Multiprocessors, ReleaseMemory: s.cfg.GPU.Memory == config.GPUMemoryRelease}
	if s.ipsec != nil {
		o.Gateway = s.ipsec.gateway
	}
	for _, l := range s.cfg.ActiveLanes() {
		o.Shares = append(o.Shares, l.Share)
	}
	s.engine.gpus, err = gpu.OpenAll(s.fib, o)
	switch {
	case err == nil:
		s.closers.push("close GPUs", s.engine.gpus.Close)
		e.Name, e.Reason, e.Why = "gpu", "configured", "the configuration asks for it"
		if s.cfg.Engine != config.EngineGPU {
			e.Reason, e.Why = "gpu_found", "there is one"
		}
		e.Why += limitsOf(s.engine.gpus)
		if s.memory.chunks = config.ChunksWithGPU; s.ipsec != nil {
			s.memory.chunks = config.ChunksOfGateway
		}
	case s.cfg.Engine == config.EngineGPU:
		return fmt.Errorf("start engine gpu: %w; --engine cpu or auto runs without", err)
	case errors.Is(err, gpu.ErrNoDriver):
		e.Reason, e.Why = "no_gpu", "no driver for a GPU is installed"
	default:
		e.Reason, e.Why = "no_gpu", "no GPU can be used: "+err.Error()
	}
	return nil
}

// limitsOf returns the reasons why GPUs are not used, or do not share sequence numbers.
func limitsOf(gpus *gpu.Devices) (text string) {
	for _, why := range gpus.Unusable {
		text += "; not used: " + why.Error()
	}
	if why := gpus.HostNumbers; why != nil {
		text += "; the host assigns the sequence numbers of ESP, which is slower: " + why.Error()
	}
	return text
}

// maxPackets returns the limit of a chunk's packets.
func (s *Service) maxPackets(cfg *config.Config) int {
	switch {
	case cfg.Batch.MaxPackets != 0:
		return cfg.Batch.MaxPackets
	case s.engine.gpus != nil && s.ipsec != nil:
		return gpu.SecuredPackets
	}
	return config.DefaultMaxPackets
}

// maxBytes returns the limit of a chunk's bytes, 0 for none.
func (s *Service) maxBytes(cfg *config.Config) int {
	if cfg.Batch.MaxBytes == 0 && s.engine.gpus != nil && s.ipsec != nil {
		return gpu.SecuredChunk(len(s.memory.workers), len(s.engine.gpus.All))
	}
	return cfg.Batch.MaxBytes
}

// newEngine returns the engine of a worker.
func (s *Service) newEngine(worker int, mem *umem.Memory, partialChecksums []bool) (dataplane.Engine, error) {
	e := cpu.New(s.fib, mem.Bytes(), partialChecksums)
	e.LargeFrom(mem.LargeFrom())
	if s.ipsec != nil {
		e.Secure(s.ipsec.gateway, worker)
	}
	if s.engine.gpus == nil {
		return e, nil
	}
	return s.engine.gpus.NewEngine(mem.Bytes(), s.memory.chunks, s.memory.room, e)
}

// compareCopies returns an error if a GPU's tables differ from the router's for an address, or
// if the router uses no GPU.
func (s *Service) compareCopies(ctx context.Context, vrf uint16, addr netip.Addr) error {
	if s.engine.gpus == nil {
		return fmt.Errorf("the router uses no GPU: its engine is cpu, as %s; ask without --engine gpu", s.engine.current().Why)
	}
	return s.engine.gpus.Compare(ctx, vrf, addr)
}

// current returns the state of the engine with that of the GPUs.
func (e *engine) current() status.EngineState {
	e.mu.Lock()
	state := e.state
	e.mu.Unlock()
	if e.gpus == nil {
		return state
	}
	return withDevices(state, e.gpus.States())
}

// withDevices adds the state of GPUs to that of the engine. While no worker uses a GPU, the
// engine is the CPU.
func withDevices(e status.EngineState, devices []gpu.State) status.EngineState {
	e.Chosen = e.Reason
	working, outage := false, (*gpu.Outage)(nil)
	for i := range devices {
		d := &devices[i]
		working = working || d.WorkersOut < d.Workers
		if outage == nil {
			outage = d.Outage
		}
		e.Devices = append(e.Devices, deviceStatus(d))
	}
	if !working && outage != nil {
		e.Name, e.Reason, e.Why = "cpu", "gpu_failed", "the GPU is out: "+outage.Why.Error()
	}
	return e
}

func deviceStatus(d *gpu.State) status.Device {
	of := status.Device{
		Number: d.Number, Name: d.Info.Name, PCI: d.Info.PCIBusID,
		Sharing: string(d.Sharing.Mode), SharingLatency: gpu.SharingLatency(d.Sharing), Multiprocessors: d.Multiprocessors,
		Shape:  status.Shape{Warps: d.Shape.Warps, SharedBytes: d.Shape.Shared, StagingBytes: d.Shape.Staging, BlocksPerMultiprocessor: d.Shape.BlocksPerMultiprocessor, CBCByCPU: d.Shape.WithoutCBC},
		Blocks: d.Blocks, Awake: d.Awake, Parked: d.Parked, Wakes: d.Wakes, Workers: d.Workers, WorkersOut: d.WorkersOut, InFlight: d.InFlight, Unfinished: d.Lost,
		Chunks: d.ByGPU, ChunksByCPU: d.ByCPU, ChunksSooner: d.CPUSooner, ExploredCPU: d.CPUExplored, ExploredGPU: d.GPUExplored, ChunksNoSlot: d.NoFreeSlot, ChunksParked: d.KernelParked, ChunksLate: d.GPULate,
		TimesCPU: chunkTimes(d.Times[choice.CPU]), TimesGPU: chunkTimes(d.Times[choice.GPU]), Load: d.Load,
		Shadow: d.Shadow, ShadowSame: d.ShadowSame, ShadowDifferent: d.ShadowDifferent, ShadowSkipped: d.ShadowSkipped, Timeouts: d.Timeouts, Recoveries: d.Recoveries,
	}
	if d.WakeErr != nil {
		of.WakeError = d.WakeErr.Error()
	}
	if d.Failed {
		of.Faults = 1
	}
	if d.Outage != nil {
		of.Cause = string(d.Cause)
		of.Outage = &status.Outage{Since: d.Outage.Since, Why: d.Outage.Why.Error()}
	}
	return of
}

func chunkTimes(m choice.Means) status.ChunkTimes {
	return status.ChunkTimes{PredictedNS: m.Predicted.Nanoseconds(), MeasuredNS: m.Measured.Nanoseconds(), Error: m.Error}
}

// partialChecksumPorts reports by port number whether to complete unfinished L4 checksums: on ports that are added later,
// whose numbers are below a limit, always, and on VLANs if any physical port at the start may carry them, or patterns add ports.
// Engines have a copy, so it does not change.
func partialChecksumPorts(cfg *config.Config, numbers int) []bool {
	partialChecksums := make([]bool, batch.MaxPorts)
	for i, p := range cfg.Ports {
		switch cfg.Checksum {
		case config.ChecksumRepair:
			partialChecksums[i] = true
		case config.ChecksumAuto:
			layers, err := netdev.Layers(p.Interface)
			_, unfinished := netdev.UnfinishedChecksums(layers)
			partialChecksums[i] = unfinished || err != nil
		}
	}
	later := len(partialChecksums)
	if cfg.Checksum == config.ChecksumTrust || !cfg.Patterns() && !slices.Contains(partialChecksums[:len(cfg.Ports)], true) {
		later = numbers
	}
	for i := len(cfg.Ports); i < later; i++ {
		partialChecksums[i] = cfg.Checksum != config.ChecksumTrust
	}
	return partialChecksums
}
