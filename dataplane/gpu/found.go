package gpu

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
)

const (
	prefetched = 64 // packets whose SAs are prefetched together
	// othersShare: if the device has admitted all packets of a chunk but one in so many, only the others get jobs. (The steps
	// for jobs are faster if they have many packets each.)
	othersShare = 8
)

// foundPackets are packets of a tile whose SAs the device was asked for.
type foundPackets struct {
	in      []batch.Frame
	out     []batch.Result
	jobs    []esp.Job
	results []batch.Result // by the device
	found   []uint64       // by the device: index of the SA's keys in the lower half, sequence number in the upper one
}

// foundPackets returns the packets of a tile.
func (e *Engine) foundPackets(f *flight, tile int) foundPackets {
	s, c, first, end := &e.mailbox.slots[f.slots[tile]], f.chunk, f.tileStart(tile), f.tileStart(tile+1)
	return foundPackets{c.In[first:end], c.Out[first:end], f.jobs[first:end], s.results[:end-first], s.found()[:end-first]}
}

// admitted reports whether the device says that it has opened a packet, forwards it, and admits it.
func admitted(r batch.Result) bool {
	return r.Verdict.Action() == batch.ActionForward && r.Addr()&esp.Admitted != 0
}

// takeFound finishes the packets of a chunk that the device has opened in its first pass, in order. It returns the number of
// the packets that are the host's, and of these the ones that the device has classified.
func (e *Engine) takeFound(f *flight) (rest, classified int) {
	others, finds := 0, f.passFlags&(findSAsFlag|expectFlag) != 0
	for k := range f.tiles {
		for _, r := range e.foundPackets(f, k).results {
			switch {
			case r.Verdict == resultHost:
				rest++
			case r.Verdict == resultNeedsSeq:
				rest++
				classified++
			case !admitted(r):
				others++
			}
		}
	}
	switch n := f.chunk.N; {
	case !finds || (rest+others)*e.othersShare > n:
		e.takeWithJobs(f, finds)
		if rest < n {
			e.confirmFound(f.chunk.In[:n], f.chunk.Out[:n], f.jobs)
		}
	default:
		e.takeAdmitted(f, rest > 0)
	}
	return rest, classified
}

// takeWithJobs makes jobs of the packets of a chunk, but of those that are the host's.
func (e *Engine) takeWithJobs(f *flight, finds bool) {
	e.esp.BeginOpened(f.jobs, f.chunk.N, e.ipsec.keys)
	for k := range f.tiles {
		p := e.foundPackets(f, k)
		for i := range p.in {
			if finds && i%prefetched == 0 {
				e.esp.PrefetchOpeners(p.found[i:min(i+prefetched, len(p.found))])
			}
			e.takeWithJob(&p, i, finds, true)
		}
		clear(p.results)
	}
}

// takeWithJob makes a job of packet i, unless it is the host's. Without a rest, none is: the device has written another
// result than the one that was counted. found is true if the job is that of an SA, to be finished.
func (e *Engine) takeWithJob(p *foundPackets, i int, finds, rest bool) (found bool) {
	f, out, job, r := &p.in[i], &p.out[i], &p.jobs[i], p.results[i]
	switch {
	case r.Verdict == resultHost && rest:
		return false
	case r.Verdict == resultNeedsSeq && rest:
		e.esp.Classified(job, r.Addr(), r.Len())
		return false
	}
	var drop batch.Result
	ok := finds && e.checker.possible(r)
	if ok {
		drop, ok = e.esp.MakeOpenJob(*f, job, uint32(p.found[i]), uint32(p.found[i]>>32))
	}
	switch {
	case !ok:
		*out = r
		e.checker.refuse(out, *f)
	case drop.Verdict != 0:
		*out = drop
		f.Origin = f.Origin.With(batch.PolicyDone)
	default:
		*out = takeResult(*f, job, r)
		return true
	}
	job.Kind = esp.Decided
	return false
}

// confirmFound finishes packets with jobs whose SAs the device has found.
func (e *Engine) confirmFound(in []batch.Frame, out []batch.Result, jobs []esp.Job) {
	e.ipsec.confirm(e, in, out, jobs)
	for i := range jobs {
		if jobs[i].SAByDevice {
			jobs[i].Kind = esp.Decided
		}
	}
}

// takeAdmitted finishes the packets of a chunk, of which the device has admitted nearly all: these need no jobs. With a rest
// for the host, they have jobs that say so. The packets of an SA stay in order: those with jobs are finished after all that
// came before.
func (e *Engine) takeAdmitted(f *flight, rest bool) {
	in, out := f.chunk.In[:f.chunk.N], f.chunk.Out[:f.chunk.N]
	if rest {
		e.esp.BeginOpened(f.jobs, len(in), e.ipsec.keys)
	} else {
		e.esp.BeginOpened(nil, len(in), e.ipsec.keys)
	}
	for k := range f.tiles {
		p, first := e.foundPackets(f, k), f.tileStart(k)
		for i := 0; i < len(p.in); i++ {
			n := e.esp.AddOpened(first+i, p.in[i:], p.out[i:], p.results[i:], p.found[i:], e.checker.ports)
			if rest {
				decide(p.jobs[i : i+n])
			}
			if i += n; i < len(p.in) && e.takeWithJob(&p, i, true, rest) {
				e.esp.ConfirmOpened(in, out)
				e.confirmFound(p.in[i:i+1], p.out[i:i+1], p.jobs[i:i+1])
			}
		}
		clear(p.results)
	}
	e.esp.ConfirmOpened(in, out)
}

// decide makes jobs those of packets that are finished.
func decide(jobs []esp.Job) {
	for i := range jobs {
		jobs[i].Kind = esp.Decided
	}
}
