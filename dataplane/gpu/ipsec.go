package gpu

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
)

// ipsecPath is the host's part of IPsec on a GPU: the steps before and after the device, by the worker's
// ESP stage, and the jobs for the device.
type ipsecPath struct {
	jobs  *jobs
	tasks [][]esp.Task // by slot
	keys  uint32       // size of the device's key table
}

func newIPsecPath(slots, size int, keys uint32) (*ipsecPath, error) {
	j, err := newJobs(slots, size)
	if err != nil {
		return nil, err
	}
	s := &ipsecPath{jobs: j, keys: keys}
	for range slots {
		s.tasks = append(s.tasks, make([]esp.Task, size))
	}
	return s, nil
}

// begin does the steps before the device. It returns the tasks of a slot, nil if there are none.
func (s *ipsecPath) begin(stage *esp.Stage, k *checker, c *batch.Chunk, slot int) []esp.Task {
	tasks := s.tasks[slot][:c.N]
	if stage.Begin(c.In[:c.N], c.Out[:c.N], tasks, s.keys) == 0 {
		return nil
	}
	jobs := s.jobs.slots[slot]
	for i := range tasks {
		t := &tasks[i]
		jobs[i].set(t)
		if t.Kind == esp.Seal {
			k.mark(c.In[i], t)
		}
	}
	return tasks
}

// finish does the steps after the device.
func (s *ipsecPath) finish(e *Engine, c *batch.Chunk, slot int, results []batch.Result) {
	tasks, in, out := s.tasks[slot][:c.N], c.In[:c.N], c.Out[:c.N]
	for i := range tasks {
		if tasks[i].Kind != esp.Settled {
			out[i] = results[i]
		}
	}
	clear(results[:c.N])
	e.checker.checkTasks(in, out, tasks)
	e.shadow.compare(c, tasks)
	if e.esp.Finish(in, out, tasks) > 0 {
		for i := range tasks {
			if tasks[i].Kind == esp.Open && tasks[i].Again {
				e.cpu.Route(in[i:i+1], out[i:i+1])
			}
		}
	}
	e.checker.checkPlaces(in, out)
}
