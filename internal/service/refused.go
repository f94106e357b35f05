package service

import (
	"time"

	"github.com/warproute/warproute/control/status"
)

const (
	refusedEvery = time.Second      // between looks at the counters
	refusedAgain = 30 * time.Second // between log lines of one port
)

// watchRefused reports frames that the XDP program directed to a port's socket and the kernel
// did not hand to it. It also keeps the counter up to date: see afxdp.PortStats.
func (s *Service) watchRefused() {
	reports := make([]report, len(s.ports.Ports))
	tick := time.NewTicker(refusedEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ending:
			return
		case <-tick.C:
		}
		for i, p := range s.ports.Ports {
			c, err := p.Stats()
			if err != nil {
				continue // Snapshot logs it
			}
			if n := reports[i].due(c.Refused, time.Now()); n > 0 {
				s.log.Error("received frames are lost", "port", p.Name, "frames", n, "reason", status.RefusedSentence, "hint", status.RefusedHint)
			}
		}
	}
}

// report is how far a growing count has been reported.
type report struct {
	count uint64
	at    time.Time
}

// due returns by how much a count has grown since the last report, if it is time for
// another.
func (r *report) due(count uint64, now time.Time) (n uint64) {
	if count <= r.count || now.Sub(r.at) < refusedAgain {
		return 0
	}
	n = count - r.count
	r.count, r.at = count, now
	return n
}
