package dataplane

import "github.com/warproute/warproute/batch"

// A GPU that missed its deadline may still write to the frames of the chunks that it was
// given. Their packets count as dropped; the frames are withheld from the pool until the
// engine has quiesced, so that nobody receives into memory that the GPU overwrites.

// withhold counts a lost packet as dropped and keeps its frame out of the pool.
func (w *worker) withhold(f batch.Frame) {
	w.lose(f, batch.EngineFailed)
	w.withheld = append(w.withheld, f.Addr)
	w.stats.withheld.Store(int64(len(w.withheld)))
}

// release returns the withheld frames to the pool once the engine has quiesced.
func (w *worker) release() {
	if len(w.withheld) == 0 || !w.engine.Quiesced() {
		return
	}
	w.pool.PutBlock(w.withheld)
	w.withheld = w.withheld[:0]
	w.stats.withheld.Store(0)
}

// Frames returns what the workers' frames are used for. It may be called at any time.
func (r *Router) Frames() []FrameStats {
	all := make([]FrameStats, len(r.workers))
	for i, w := range r.workers {
		all[i] = FrameStats{Total: w.frames, Free: w.stats.free.Load(), Withheld: w.stats.withheld.Load()}
	}
	return all
}
