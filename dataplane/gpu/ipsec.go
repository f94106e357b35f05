package gpu

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
)

// ipsecPath is the host's part of IPsec on a GPU: the steps before and after the device, by the worker's
// ESP stage.
type ipsecPath struct {
	free [][]esp.Job // jobs of chunks, not in use
	keys uint32      // size of the device's key table
}

func newIPsecPath(chunks, size int, keys uint32) *ipsecPath {
	s := &ipsecPath{keys: keys}
	for range chunks {
		s.free = append(s.free, make([]esp.Job, size))
	}
	return s
}

// take returns jobs for a chunk.
func (s *ipsecPath) take(c *batch.Chunk) []esp.Job {
	jobs := s.free[len(s.free)-1][:c.N]
	s.free = s.free[:len(s.free)-1]
	return jobs
}

// begin does the steps before the device. It returns the jobs of a chunk's packets, nil if there are none.
func (s *ipsecPath) begin(stage *esp.Stage, k *checker, c *batch.Chunk) []esp.Job {
	jobs := s.take(c)
	if stage.Begin(c.In[:c.N], c.Out[:c.N], jobs, s.keys) == 0 {
		s.release(jobs)
		return nil
	}
	k.markAll(c, jobs)
	return jobs
}

// release returns the jobs of a chunk.
func (s *ipsecPath) release(jobs []esp.Job) {
	if jobs != nil {
		s.free = append(s.free, jobs[:cap(jobs)])
	}
}

// finish checks the results of a chunk, and does the steps after the device: replay windows and inbound
// policies. The CPU routes packets again that were decrypted or encrypted once more.
func (s *ipsecPath) finish(e *Engine, c *batch.Chunk, jobs []esp.Job) {
	in, out := c.In[:c.N], c.Out[:c.N]
	e.checker.checkJobs(in, out, jobs)
	e.shadow.compare(c, jobs)
	s.confirm(e, in, out, jobs)
}

// confirm is finish behind the checks of results.
func (s *ipsecPath) confirm(e *Engine, in []batch.Frame, out []batch.Result, jobs []esp.Job) {
	if e.esp.Finish(in, out, jobs) > 0 {
		for i := range jobs {
			if jobs[i].Kind == esp.Open && jobs[i].Reroute {
				e.cpu.Route(in[i:i+1], out[i:i+1])
			}
		}
	}
	e.checker.checkPlaces(in, out)
}
