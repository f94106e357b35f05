package service

import (
	"fmt"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/internal/placement"
	"github.com/warproute/warproute/umem"
)

// memory is the memory of all workers: frames and chunks.
type memory struct {
	workers   []afxdp.WorkerMemory
	chunks    int // per worker
	room      int // packets per chunk
	maxMTU    int // the largest that a frame holds
	added     int // queues of each worker that ports added later can have
	hugePages bool
	allocated closers
}

func (m *memory) close() error { return m.allocated.unwind() }

// allocate allocates the frames of workers that share a number of queues, with room for a number of ports that are added
// later. nodes has the NUMA node of each worker's memory.
func (m *memory) allocate(cfg *config.Config, nodes []int, queues, later int, ring uint32) error {
	perWorker := (queues + len(nodes) - 1) / len(nodes)
	m.added = later * max(1, (perWorker+len(cfg.Ports)-1)/max(1, len(cfg.Ports)))
	frames := perWorker*afxdp.FramesPerQueue(ring) + m.added*afxdp.FramesPerAddedQueue(ring) + config.ChunkFrames(m.chunks, m.room)
	large, err := largeFrames(cfg, perWorker+m.added/4, ring)
	if err != nil {
		return err
	}
	if m.maxMTU = umem.MaxMTU; large > 0 {
		m.maxMTU = umem.MaxLargeMTU
	}
	m.hugePages = true
	for _, node := range nodes {
		var mem *umem.Memory
		err := placement.OnNode(node, func() (b []byte, err error) {
			if mem, err = umem.NewLarge(frames, large); err == nil {
				b = mem.Bytes()
			}
			return b, err
		})
		if mem != nil {
			m.allocated.push("free frames", mem.Close)
		}
		if err != nil {
			return err
		}
		m.hugePages = m.hugePages && mem.Huge()
		m.workers = append(m.workers, afxdp.WorkerMemory{Memory: mem, Pool: umem.NewPool(mem)})
	}
	return nil
}

// largeFrames returns how many large frames a worker with a number of queues needs: none
// unless the MTU of a port exceeds the other frames.
func largeFrames(cfg *config.Config, queues int, ring uint32) (int, error) {
	for _, p := range cfg.Ports {
		iface, err := netdev.InterfaceByName(p.Interface)
		if err != nil {
			return 0, fmt.Errorf("look up the MTU of port %s: %w", p.Interface, err)
		}
		if iface.MTU > umem.MaxMTU {
			return queues * afxdp.LargePerQueue(ring), nil
		}
	}
	return 0, nil
}

// warnAboutMTU logs an MTU of a port that exceeds the workers' frames.
func (s *Service) warnAboutMTU(port string, mtu int) {
	largest := s.memory.maxMTU
	hint := fmt.Sprintf("restart the router, which allocates memory by the MTUs at its start, or ip link set %s mtu %d", port, largest)
	if mtu > umem.MaxLargeMTU {
		hint = fmt.Sprintf("ip link set %s mtu %d", port, umem.MaxLargeMTU)
	}
	if mtu > largest {
		s.log.Warn("port MTU exceeds the frame buffers, larger frames are lost", "port", port, "mtu", mtu, "limit", largest, "hint", hint)
	}
}
