package service

import (
	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/internal/napi"
)

// Real-time priorities under napi: thread. A worker that has nothing to do
// sleeps, and only then its core receives: no more than the worker gets to.
const (
	workerPriority = 2
	napiPriority   = 1
)

// threadNAPI moves the receive work of the ports to the workers' cores.
func (s *Service) threadNAPI() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.ports.Ports {
		restore, err := s.threadPort(p)
		if err != nil {
			return err
		}
		s.unthread = append(s.unthread, restore)
	}
	return nil
}

func (s *Service) threadPort(p *afxdp.Port) (restore func() error, err error) {
	core := func(queue int) int { return s.engine.Cores[queue%len(s.engine.Cores)] }
	return napi.Thread(p.Name, p.Ifindex, core, napiPriority)
}
