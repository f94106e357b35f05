package service

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/gpu"
)

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
	d, err := gpu.Open(s.fib, gpu.Options{Repair: repairPorts(s.cfg), Workers: workers, Chunks: chunksWithGPU})
	switch {
	case err == nil:
		s.device = d
		e.Name, e.Reason, e.Why = "gpu", "configured", "the configuration asks for it"
		if s.cfg.Engine != config.EngineGPU {
			e.Reason, e.Why = "gpu_found", "there is one"
		}
		e.Device, e.Mode = d.Info().Name, string(d.Mode())
		s.chunks = chunksWithGPU
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
func (s *Service) newEngine(mem []byte, repair []bool) (dataplane.Engine, error) {
	e := cpu.New(s.fib, mem, repair)
	if s.device == nil {
		return e, nil
	}
	return s.device.NewEngine(mem, s.chunks, s.cfg.Batch.MaxPackets, e)
}

// engineState is the engine as of now: a GPU that has failed is out.
func (s *Service) engineState() status.EngineState {
	e := s.engine
	if s.device != nil {
		if err := s.device.Err(); err != nil {
			e.Name, e.Reason, e.Why = "cpu", "gpu_failed", "the GPU was taken out: "+err.Error()
		}
	}
	return e
}

// softDrivers are the drivers whose senders are Linux itself, on this host or
// under the same hypervisor, and may leave L4 checksums to a device that the
// packets never meet.
var softDrivers = map[string]bool{
	"veth": true, "virtio_net": true, "tun": true, "vif": true, "xen_netfront": true, "vmxnet3": true,
	"hv_netvsc": true, "bridge": true, "ifb": true,
}

// repairPorts returns, by port, whether unfinished L4 checksums are to be completed.
func repairPorts(cfg *config.Config) []bool {
	repair := make([]bool, len(cfg.Ports))
	for i, p := range cfg.Ports {
		switch cfg.Checksum {
		case config.ChecksumRepair:
			repair[i] = true
		case config.ChecksumAuto:
			repair[i] = softDrivers[driver(p.Interface)]
		}
	}
	return repair
}

// driver returns the name of an interface's driver, "" where nobody says.
func driver(name string) string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	info, err := unix.IoctlGetEthtoolDrvinfo(fd, name)
	if err != nil {
		return ""
	}
	return unix.ByteSliceToString(info.Driver[:])
}
