package dataplane

// Ask asks every worker that runs to show that it makes progress. See Silent.
func (r *Router) Ask() {
	for _, w := range r.workers[:r.started] {
		w.asked.Store(true)
	}
}

// Silent returns the numbers of the workers that have not begun a turn of their loop since
// they were asked. An idle worker takes 50 ms for one.
func (r *Router) Silent() (workers []int) {
	for i, w := range r.workers[:r.started] {
		if w.asked.Load() {
			workers = append(workers, i)
		}
	}
	return workers
}
