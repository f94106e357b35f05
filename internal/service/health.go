package service

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/gpu"
)

// Intervals between log messages about a condition that lasts.
const (
	repeatEvery  = time.Minute      // an exhausted frame pool
	refusedEvery = 30 * time.Second // frames lost on a port
)

// checkHealth logs GPUs that fail or recover, and exhausted frame pools.
func (s *Service) checkHealth() func(time.Time) {
	h := health{log: s.log, gpus: map[int]bool{}, pools: map[int]time.Time{}}
	return func(now time.Time) {
		if s.engine.gpus != nil {
			h.checkGPUs(s.engine.gpus.States())
		}
		h.checkPools(now, s.router.Frames())
	}
}

// health is the last logged state.
type health struct {
	log   *slog.Logger
	gpus  map[int]bool      // by number: out of use
	pools map[int]time.Time // by worker: the last message about its empty pool
}

func (h *health) checkGPUs(devices []gpu.State) {
	for i := range devices {
		d := &devices[i]
		out := d.Outage != nil
		if out == h.gpus[d.Number] {
			continue
		}
		h.gpus[d.Number] = out
		switch {
		case !out:
			h.log.Info("gpu in use again", "gpu", d.Number)
		case d.Failed:
			h.log.Error("gpu failed, the CPU replaces it", "gpu", d.Number, "err", d.Outage.Why, "reason", d.Cause, "hint", hints[d.Cause])
		default:
			h.log.Warn("gpu out of use for a while, the CPU replaces it", "gpu", d.Number, "err", d.Outage.Why, "reason", d.Cause, "hint", hints[d.Cause])
		}
	}
}

var hints = map[gpu.Cause]string{
	gpu.CauseTimeout:   "see whether another process uses the GPU (nvidia-smi); the router tries again by itself",
	gpu.CauseFault:     "look for the fault in the kernel's log (Xid); restart the router to use the GPU again",
	gpu.CauseTableFull: "the GPU has too little memory for the route table: announce fewer routes, or free memory of the GPU that other processes use (nvidia-smi); then restart the router",
	gpu.CauseBadResult: "check the GPU for memory errors (nvidia-smi -q -d ECC); restart the router to use it again, and report the fault if it recurs",
	gpu.CauseMismatch:  "check the GPU for memory errors (nvidia-smi -q -d ECC); restart the router to use it again, and report the fault if it recurs",
}

func (h *health) checkPools(now time.Time, workers []dataplane.FrameStats) {
	for i, f := range workers {
		last, logged := h.pools[i]
		switch {
		case f.Free > 0 && logged:
			delete(h.pools, i)
			h.log.Info("frame pool recovered", "worker", i, "free", f.Free)
		case f.Free > 0 || logged && now.Sub(last) < repeatEvery:
		case f.Withheld > 0:
			h.pools[i] = now
			h.log.Error("frame pool exhausted", "worker", i, "frames", f.Total, "withheld", f.Withheld,
				"hint", "a failed GPU may still write to the withheld frames: see `warproute show engine`; restart the router if the GPU does not finish")
		default:
			h.pools[i] = now
			h.log.Error("frame pool exhausted", "worker", i, "frames", f.Total, "withheld", 0,
				"hint", "all frames are in rings and queues: a port does not send, or the router leaks frames if it lasts; see `warproute show ports`")
		}
	}
}

// checkRefused logs frames that the XDP program redirected to a port's socket and the kernel
// did not deliver. Reading the counter also keeps it up to date: see afxdp.PortStats.
func (s *Service) checkRefused() func(time.Time) {
	losses := map[*afxdp.Port]*loss{}
	return func(now time.Time) {
		all := s.ports.all()
		maps.DeleteFunc(losses, func(p *afxdp.Port, _ *loss) bool { return !slices.Contains(all, p) })
		for _, p := range all {
			if p == nil {
				continue
			}
			if losses[p] == nil {
				losses[p] = new(loss)
			}
			c, err := p.Stats()
			if err != nil {
				continue // Snapshot logs it
			}
			if n := losses[p].due(c.Refused, now); n > 0 {
				s.log.Error("received frames lost", "port", p.Name, "frames", n, "reason", status.RefusedDescription, "hint", status.RefusedHint)
			}
		}
	}
}

// loss is the last logged value of a growing counter.
type loss struct {
	count uint64
	at    time.Time
}

// due returns the growth since the last message if another one is due, else 0.
func (l *loss) due(count uint64, now time.Time) (n uint64) {
	if count <= l.count || now.Sub(l.at) < refusedEvery {
		return 0
	}
	n = count - l.count
	l.count, l.at = count, now
	return n
}
