package gpu

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
)

// securer is what an engine has beside its mailbox when its router is a gateway. The
// worker's CPU engine settles what needs policies and associations, before and after
// the device has had a chunk.
type securer struct {
	jobs  *jobs
	tasks [][]cpu.Task // by slot
	keys  uint32       // how many the device has room for
}

func newSecurer(slots, size int, keys uint32) (*securer, error) {
	j, err := newJobs(slots, size)
	if err != nil {
		return nil, err
	}
	s := &securer{jobs: j, keys: keys}
	for range slots {
		s.tasks = append(s.tasks, make([]cpu.Task, size))
	}
	return s, nil
}

// begin settles what comes before the device. It returns the tasks of a slot, nil if it has none.
func (s *securer) begin(e *cpu.Engine, k *checker, c *batch.Chunk, slot int) []cpu.Task {
	tasks := s.tasks[slot][:c.N]
	if e.Begin(c.In[:c.N], c.Out[:c.N], tasks, s.keys) == 0 {
		return nil
	}
	jobs := s.jobs.slots[slot]
	for i := range tasks {
		t := &tasks[i]
		jobs[i].set(t)
		if t.Kind == cpu.Seal {
			k.mark(c.In[i], t)
		}
	}
	return tasks
}

// finish settles what comes after it.
func (s *securer) finish(e *Engine, c *batch.Chunk, slot int, results []batch.Result) {
	tasks, in, out := s.tasks[slot][:c.N], c.In[:c.N], c.Out[:c.N]
	for i := range tasks {
		if tasks[i].Kind != cpu.Settled {
			out[i] = results[i]
		}
	}
	clear(results[:c.N])
	e.checker.checkTasks(in, out, tasks)
	e.shadow.compare(c, tasks)
	e.cpu.Finish(in, out, tasks)
	e.checker.checkPlaces(in, out)
}
