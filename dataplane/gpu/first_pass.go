package gpu

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
)

const (
	prefetched = 64 // packets whose SAs are prefetched together
	// othersShare limits the packets of a chunk that the device has not admitted, if only these get jobs: one in so many. With
	// more of them, all packets that the device has opened get jobs, as the steps for jobs are faster with many packets each.
	othersShare = 8
)

// firstPassTile has the packets of a tile after the first pass, and what the device has stored for them.
type firstPassTile struct {
	in      []batch.Frame
	out     []batch.Result
	jobs    []esp.Job
	results []batch.Result // by the device
	reports []esp.SAReport // by the device
}

// firstPassTile returns the packets of a tile.
func (e *Engine) firstPassTile(f *flight, tile int) firstPassTile {
	s, c, first, end := &e.mailbox.slots[f.slots[tile]], f.chunk, f.tileStart(tile), f.tileStart(tile+1)
	return firstPassTile{c.In[first:end], c.Out[first:end], f.jobs[first:end], s.results[:end-first], s.saReports()[:end-first]}
}

// countHostPackets returns the number of packets of a chunk to seal that the device has left to the host.
func (e *Engine) countHostPackets(f *flight) (n int) {
	for k := range f.tiles {
		for _, r := range e.firstPassTile(f, k).results {
			if r.Verdict >= resultHost {
				n++
			}
		}
	}
	return n
}

// admitted reports whether the device says that it has opened a packet, forwards it, and admits it.
func admitted(r batch.Result) bool {
	return r.Verdict.Action() == batch.ActionForward && r.Addr()&esp.Admitted != 0
}

// acceptFirstPass takes the results of a chunk's packets that the device has opened in its first pass, in order. Their sequence numbers are
// confirmed by advance at the latest, and before those of later packets with jobs. It returns the number of
// the packets that are the host's, and of these the ones that the device has classified.
func (e *Engine) acceptFirstPass(f *flight) (hostPackets, classified int) {
	others, finds := 0, f.passFlags&(findSAsFlag|expectFlag) != 0
	for k := range f.tiles {
		for _, r := range e.firstPassTile(f, k).results {
			switch {
			case r.Verdict == resultHost:
				hostPackets++
			case r.Verdict == resultNeedsSeq:
				hostPackets++
				classified++
			case !admitted(r):
				others++
			}
		}
	}
	n := f.chunk.N
	if !finds || (hostPackets+others)*e.othersShare > n {
		e.esp.ConfirmOpened() // of older chunks
		e.acceptWithJobs(f, finds)
		if hostPackets < n {
			e.finishOpened(f.chunk.In[:n], f.chunk.Out[:n], f.jobs)
		}
		return hostPackets, classified
	}
	if e.acceptAdmitted(f, hostPackets > 0); hostPackets > 0 {
		e.esp.ConfirmOpened() // before the host's packets
	}
	return hostPackets, classified
}

// acceptWithJobs makes jobs of the packets of a chunk that the device has opened, by which Finish completes them.
func (e *Engine) acceptWithJobs(f *flight, finds bool) {
	e.esp.BeginOpened(f.chunk.In[:f.chunk.N], f.chunk.Out[:f.chunk.N], f.jobs, e.ipsec.keys)
	for k := range f.tiles {
		p := e.firstPassTile(f, k)
		for i := range p.in {
			if finds && i%prefetched == 0 {
				e.esp.PrefetchOpeners(p.reports[i:min(i+prefetched, len(p.reports))])
			}
			e.acceptWithJob(&p, i, finds, true)
		}
		clear(p.results)
	}
}

// acceptWithJob makes a job of packet i, unless it is the host's. If hasHostPackets is false, acceptFirstPass has counted no packet of
// the host: a result that says so was written after the count, and is refused. opened is true if the job is to be finished: the
// device has opened the packet.
func (e *Engine) acceptWithJob(p *firstPassTile, i int, finds, hasHostPackets bool) (opened bool) {
	f, out, job, r := &p.in[i], &p.out[i], &p.jobs[i], p.results[i]
	switch {
	case r.Verdict == resultHost && hasHostPackets:
		return false
	case r.Verdict == resultNeedsSeq && hasHostPackets:
		e.esp.Classified(job, r.Addr(), r.Len())
		return false
	}
	var drop batch.Result
	ok := finds && e.checker.possible(r)
	if ok {
		drop, ok = e.esp.MakeOpenJob(*f, job, p.reports[i])
	}
	switch {
	case !ok:
		*out = r
		e.checker.refuse(out, *f)
	case drop.Verdict != 0:
		*out = drop
		f.Origin = f.Origin.With(batch.PolicyDone)
	default:
		*out = acceptResult(*f, job, r)
		return true
	}
	job.Kind = esp.Decided
	return false
}

// finishOpened finishes packets with jobs that the device has opened.
func (e *Engine) finishOpened(in []batch.Frame, out []batch.Result, jobs []esp.Job) {
	e.ipsec.confirm(e, in, out, jobs)
	for i := range jobs {
		if jobs[i].SAByDevice {
			jobs[i].Kind = esp.Decided
		}
	}
}

// acceptAdmitted finishes the packets of a chunk, of which the device has admitted nearly all: these need no jobs, but
// Stage.ConfirmOpened. If others are the host's, they have jobs that say so. The packets of an SA stay in order: those with jobs are
// finished after all that came before.
func (e *Engine) acceptAdmitted(f *flight, hasHostPackets bool) {
	jobs := f.jobs
	if !hasHostPackets {
		jobs = nil
	}
	e.esp.BeginOpened(f.chunk.In[:f.chunk.N], f.chunk.Out[:f.chunk.N], jobs, e.ipsec.keys)
	for k := range f.tiles {
		p, first := e.firstPassTile(f, k), f.tileStart(k)
		run := -1 // first of packets with jobs that are to be finished
		for i := 0; i < len(p.in); {
			end := len(p.in)
			if run >= 0 {
				end = i + 1 // AddOpened may confirm numbers, but not before the run is finished
			}
			n := e.esp.AddOpened(first+i, p.results[i:end], p.reports[i:end], e.checker.ports)
			if hasHostPackets {
				decide(p.jobs[i : i+n])
			}
			if n > 0 && run >= 0 {
				e.finishOpened(p.in[run:i], p.out[run:i], p.jobs[run:i])
				run = -1
			}
			if i += n; i == end {
				continue
			}
			if e.acceptWithJob(&p, i, true, hasHostPackets) && run < 0 {
				e.esp.ConfirmOpened()
				run = i
			}
			i++
		}
		if run >= 0 {
			e.finishOpened(p.in[run:], p.out[run:], p.jobs[run:])
		}
		clear(p.results)
	}
}

// decide makes jobs those of packets that are finished.
func decide(jobs []esp.Job) {
	for i := range jobs {
		jobs[i].Kind = esp.Decided
	}
}
