package gpu

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
)

// ipsecPath is the host's part of IPsec on a GPU: the steps before and after the device, by the worker's
// ESP stage, and the jobs for the device.
type ipsecPath struct {
	deviceJobs *jobTable
	jobs       [][]esp.Job // by slot
	keys       uint32      // size of the device's key table
}

func newIPsecPath(slots, size int, keys uint32) (*ipsecPath, error) {
	j, err := newJobTable(slots, size)
	if err != nil {
		return nil, err
	}
	s := &ipsecPath{deviceJobs: j, keys: keys}
	for range slots {
		s.jobs = append(s.jobs, make([]esp.Job, size))
	}
	return s, nil
}

// begin does the steps before the device. It returns the jobs of a slot, nil if there are none.
func (s *ipsecPath) begin(stage *esp.Stage, k *checker, c *batch.Chunk, slot int) []esp.Job {
	jobs := s.jobs[slot][:c.N]
	if stage.Begin(c.In[:c.N], c.Out[:c.N], jobs, s.keys) == 0 {
		return nil
	}
	device := s.deviceJobs.slots[slot]
	for i := range jobs {
		job := &jobs[i]
		device[i].set(job)
		if job.Kind == esp.Seal {
			k.mark(c.In[i], job)
		}
	}
	return jobs
}

// finish copies and checks the results of a slot, and does the steps after the device: replay windows and
// inbound policies. The CPU routes packets again that were decrypted or encrypted once more.
func (s *ipsecPath) finish(e *Engine, c *batch.Chunk, slot int, results []batch.Result) {
	jobs, in, out := s.jobs[slot][:c.N], c.In[:c.N], c.Out[:c.N]
	for i := range jobs {
		if jobs[i].Kind != esp.Decided {
			out[i] = results[i]
		}
	}
	clear(results[:c.N])
	e.checker.checkJobs(in, out, jobs)
	e.shadow.compare(c, jobs)
	if e.esp.Finish(in, out, jobs) > 0 {
		for i := range jobs {
			if jobs[i].Kind == esp.Open && jobs[i].Reroute {
				e.cpu.Route(in[i:i+1], out[i:i+1])
			}
		}
	}
	e.checker.checkPlaces(in, out)
}
