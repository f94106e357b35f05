package service

import (
	"fmt"
	"net"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/umem"
)

// largeFrames returns how many large frames a worker with a number of queues needs: none,
// unless a port has an MTU now that other frames do not hold.
func largeFrames(cfg *config.Config, queues int, ring uint32) (int, error) {
	for _, p := range cfg.Ports {
		iface, err := net.InterfaceByName(p.Interface)
		if err != nil {
			return 0, fmt.Errorf("look up the MTU of port %s: %w", p.Interface, err)
		}
		if iface.MTU > umem.MaxMTU {
			return queues * afxdp.LargePerQueue(ring), nil
		}
	}
	return 0, nil
}

// warnOfMTU says what becomes of frames that the workers' memory does not hold, where a
// port's MTU permits them.
func (s *Service) warnOfMTU(port string, mtu int) {
	const lost = "frames above the largest that fits a buffer will be lost"
	switch {
	case mtu > umem.MaxLargeMTU:
		s.log.Warn(lost, "port", port, "mtu", mtu, "largest", s.maxMTU, "mend", fmt.Sprintf("ip link set %s mtu %d", port, umem.MaxLargeMTU))
	case mtu > s.maxMTU:
		s.log.Warn(lost, "port", port, "mtu", mtu, "largest", s.maxMTU,
			"mend", fmt.Sprintf("restart the router, which allots memory by the MTUs at its start, or ip link set %s mtu %d", port, s.maxMTU))
	}
}
