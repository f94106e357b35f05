package service

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/status"
)

// chooseEngine says which engine the workers get, and why. An engine that was
// asked for by name and cannot run is an error, never another engine.
func chooseEngine(cfg *config.Config) (status.EngineState, error) {
	e := status.EngineState{Name: "cpu", MaxPackets: cfg.Batch.MaxPackets, MaxDelay: cfg.Batch.MaxDelay}
	switch cfg.Engine {
	case config.EngineGPU:
		return e, errors.New("start engine gpu: this version of warproute has no GPU engine; run with --engine cpu or auto")
	case config.EngineCPU:
		e.Reason, e.Why = "configured", "the configuration asks for it"
	default:
		e.Reason, e.Why = "no_gpu_engine", "this version has no other engine"
	}
	return e, nil
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
