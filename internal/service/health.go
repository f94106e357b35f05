package service

import (
	"log/slog"
	"time"

	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/gpu"
)

const (
	healthEvery = time.Second
	// repeatEvery is how often a condition that lasts is logged again.
	repeatEvery = time.Minute
)

// watchHealth logs GPUs that stop or resume work, and frame pools that run empty.
func (s *Service) watchHealth() {
	h := health{log: s.log, gpus: map[int]bool{}, pools: map[int]time.Time{}}
	for tick := time.NewTicker(healthEvery); ; {
		select {
		case <-s.ending:
			tick.Stop()
			return
		case now := <-tick.C:
			if s.devices != nil {
				h.checkGPUs(s.devices.States())
			}
			h.checkPools(now, s.router.Frames())
		}
	}
}

// health remembers what was logged.
type health struct {
	log   *slog.Logger
	gpus  map[int]bool      // by number: out
	pools map[int]time.Time // by worker: when its empty pool was logged last
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
			h.log.Error("gpu out of use, the cpu has taken over", "gpu", d.Number, "cause", d.Cause, "reason", d.Outage.Why, "hint", hints[d.Cause])
		default:
			h.log.Warn("gpu out of use for a while, the cpu has taken over", "gpu", d.Number, "workers", d.Out, "cause", d.Cause, "reason", d.Outage.Why,
				"hint", hints[d.Cause])
		}
	}
}

var hints = map[gpu.Cause]string{
	gpu.CauseTimeout:   "see whether another process uses the GPU (nvidia-smi); the router tries again by itself",
	gpu.CauseFault:     "look for the fault in the kernel's log (Xid); restart the router to use the GPU again",
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
				"hint", "all frames are in rings and queues: a port that does not send, or a fault of this router if it lasts; see `warproute show ports`")
		}
	}
}
