package service

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/gpu"
	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/umem"
)

// A chunk that finds the GPU idle is back after 5 µs at best. The CPU takes 28 ns for a packet
// that it routes, and some 300 for one that it protects ("bench latency", "bench ipsec").
const (
	smallChunk   = 128
	smallSecured = 16
)

// What no frame holds is decided on by the CPU, whichever engine is used.
var _ = [...]dataplane.Datagrams{(*cpu.Engine)(nil), (*gpu.Engine)(nil)}

// leastChunks of a worker keep a GPU busy: one that it has, and one that is being filled. A
// gateway's takes a multiprocessor each, so that many workers get less than config.ChunksWithGPU.
const leastChunks = 2

// openEngine opens what the workers' engines need, by the configuration. It runs
// while nobody changes the forwarding base. An engine that was asked for by name
// and cannot run is an error, never another engine.
func (s *Service) openEngine() error {
	e := &s.engine
	e.Name, e.MaxPackets, e.MaxDelay = "cpu", s.cfg.Batch.MaxPackets, s.cfg.Batch.MaxDelay
	if s.cfg.Engine == config.EngineCPU {
		e.Reason, e.Why = "configured", "the configuration asks for it"
		return nil
	}
	workers, _, err := countWorkers(s.cfg)
	if err != nil {
		return err
	}
	o := gpu.Options{Repair: repairPorts(s.cfg), Shadow: s.cfg.Shadow, Workers: workers, Chunks: config.ChunksWithGPU, LeastChunks: leastChunks}
	if s.ipsec != nil {
		o.Gateway = s.ipsec.gateway
	}
	if s.cfg.Engine == config.EngineAuto {
		o.Small = smallChunk
		if s.ipsec != nil {
			o.Small = smallSecured
		}
	}
	s.devices, err = gpu.OpenAll(s.fib, o)
	switch {
	case err == nil:
		e.Name, e.Reason, e.Why = "gpu", "configured", "the configuration asks for it"
		if s.cfg.Engine != config.EngineGPU {
			e.Reason, e.Why = "gpu_found", "there is one"
		}
		for _, why := range s.devices.Unusable {
			e.Why += "; not used: " + why.Error()
		}
		s.chunks = s.devices.Chunks
	case s.cfg.Engine == config.EngineGPU:
		return fmt.Errorf("start engine gpu: %w; --engine cpu or auto runs without", err)
	case errors.Is(err, gpu.ErrNoDriver):
		e.Reason, e.Why = "no_gpu", "no driver for a GPU is installed"
	default:
		e.Reason, e.Why = "no_gpu", "no GPU can be used: "+err.Error()
	}
	return nil
}

// newEngine returns the engine of a worker.
func (s *Service) newEngine(worker int, mem *umem.Memory, repair []bool) (dataplane.Engine, error) {
	e := cpu.New(s.fib, mem.Bytes(), repair)
	e.LargeFrom(mem.LargeFrom())
	if s.ipsec != nil {
		e.Secure(s.ipsec.gateway, worker)
	}
	if s.devices == nil {
		return e, nil
	}
	return s.devices.NewEngine(mem.Bytes(), s.chunks, s.room, e)
}

// compareCopies is an error where GPUs' copies of the tables do not have for an address
// what the router has, and where there are none.
func (s *Service) compareCopies(ctx context.Context, addr netip.Addr) error {
	if s.devices == nil {
		return fmt.Errorf("the router uses no GPU: its engine is cpu, as %s; ask without --engine gpu", s.engineState().Why)
	}
	return s.devices.Compare(ctx, addr)
}

// engineState is the engine as of now.
func (s *Service) engineState() status.EngineState {
	s.mu.Lock()
	e := s.engine
	s.mu.Unlock()
	if s.devices == nil {
		return e
	}
	return withDevices(e, s.devices.States())
}

// withDevices adds GPUs to what was said of the engine at the start: while no worker
// uses one, the engine is the CPU.
func withDevices(e status.EngineState, devices []gpu.State) status.EngineState {
	e.Chosen = e.Reason
	working, outage := false, (*gpu.Outage)(nil)
	for i := range devices {
		d := &devices[i]
		working = working || d.Out < d.Workers
		if outage == nil {
			outage = d.Outage
		}
		e.Devices = append(e.Devices, deviceOf(d))
	}
	if !working && outage != nil {
		e.Name, e.Reason, e.Why = "cpu", "gpu_failed", "the GPU is out: "+outage.Why.Error()
	}
	return e
}

func deviceOf(d *gpu.State) status.Device {
	of := status.Device{
		Number: d.Number, Name: d.Info.Name, PCI: d.Info.PCIBusID, Mode: string(d.Mode),
		Blocks: d.Blocks, Room: d.Room, Workers: d.Workers, WorkersOut: d.Out, InFlight: d.InFlight, Unfinished: d.Lost,
		Chunks: d.ByGPU, ChunksByCPU: d.ByCPU, ChunksSmall: d.BySize, ChunksUnplaced: d.Unplaced,
		Shadow: d.Shadow, ShadowSame: d.ShadowSame, ShadowDifferent: d.ShadowDifferent, ShadowSkipped: d.ShadowSkipped, Timeouts: d.Timeouts, Returns: d.Returns,
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

// repairPorts returns, by port, whether unfinished L4 checksums are to be completed.
func repairPorts(cfg *config.Config) []bool {
	repair := make([]bool, len(cfg.Ports))
	for i, p := range cfg.Ports {
		switch cfg.Checksum {
		case config.ChecksumRepair:
			repair[i] = true
		case config.ChecksumAuto:
			layers, err := netdev.Layers(p.Interface)
			_, unfinished := netdev.UnfinishedChecksums(layers)
			repair[i] = unfinished || err != nil
		}
	}
	return repair
}
