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
	return r.Verdict.Action() == batch.ActionForward && r.Addr()&resultAdmitted != 0
}

// takeFound finishes the packets of a chunk that the device has opened in its first pass, in order. It returns the number of
// the packets that are the host's, and of these the ones that the device has classified.
func (e *Engine) takeFound(f *flight) (rest, classified int) {
	others, finds := 0, f.unread&(findSAsFlag|expectFlag) != 0
	for k := range f.tiles {
		for _, r := range e.foundPackets(f, k).results {
			switch {
			case r.Verdict == resultHost:
				rest++
			case r.Verdict == resultProtect:
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
	e.esp.BeginFound(f.jobs, e.ipsec.keys)
	for k := range f.tiles {
		p := e.foundPackets(f, k)
		for i := range p.in {
			if finds && i%prefetched == 0 {
				e.esp.PrefetchFound(p.found[i:min(i+prefetched, len(p.found))])
			}
			e.takeWithJob(&p, i, finds, true)
		}
		clear(p.results)
	}
}

// takeWithJob makes a job of packet i, unless it is the host's. Without a rest, none is: the device has written another
// result than the one that was counted.
func (e *Engine) takeWithJob(p *foundPackets, i int, finds, rest bool) {
	f, out, job, r := &p.in[i], &p.out[i], &p.jobs[i], p.results[i]
	switch {
	case r.Verdict == resultHost && rest:
		return
	case r.Verdict == resultProtect && rest:
		e.esp.Classified(job, r.Addr(), r.Len())
		return
	}
	var drop batch.Result
	ok := finds && e.checker.possible(r)
	if ok {
		drop, ok = e.esp.Found(*f, job, uint32(p.found[i]), uint32(p.found[i]>>32))
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
		return
	}
	job.Kind = esp.Decided
}

// confirmFound finishes packets with jobs whose SAs the device has found.
func (e *Engine) confirmFound(in []batch.Frame, out []batch.Result, jobs []esp.Job) {
	e.ipsec.confirm(e, in, out, jobs)
	for i := range jobs {
		if jobs[i].Found {
			jobs[i].Kind = esp.Decided
		}
	}
}

// takeAdmitted finishes the packets of a chunk, of which the device has admitted nearly all: these need no jobs. With a rest
// for the host, they have jobs that say so.
func (e *Engine) takeAdmitted(f *flight, rest bool) {
	if rest {
		e.esp.BeginFound(f.jobs, e.ipsec.keys)
	} else {
		e.esp.BeginFound(nil, e.ipsec.keys)
	}
	for k := range f.tiles {
		p := e.foundPackets(f, k)
		n := len(p.in)
		e.esp.PrefetchFound(p.found[:min(n, prefetched)])
		for start := 0; start < n; start += prefetched {
			end := min(start+prefetched, n)
			e.esp.PrefetchFoundWindows(p.found[start:end])
			e.esp.PrefetchFound(p.found[end:min(end+prefetched, n)])
			for i := start; i < end; {
				n := e.takeOfOneSA(&p, i, end)
				switch {
				case n == 0:
					n = e.takeOthers(&p, i, end, rest)
				case rest:
					decide(p.jobs[i : i+n])
				}
				i += n
			}
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

// takeOfOneSA finishes packets from first on, as many as are of one SA and admitted, and returns their number. There are up
// to 64 before end.
func (e *Engine) takeOfOneSA(p *foundPackets, first, end int) int {
	key := uint32(p.found[first])
	o := e.esp.Opener(key)
	if o == nil {
		return 0
	}
	i := first
	for ; i < end && uint32(p.found[i]) == key && admitted(p.results[i]); i++ {
		r := p.results[i]
		r = batch.ForwardTo(r.Verdict.Port(), r.Addr()&^resultAdmitted, r.Len())
		if !e.checker.possible(r) || !o.Fits(p.in[i], r) {
			break
		}
		p.out[i] = r
	}
	if i > first {
		e.esp.ConfirmOpened(o, p.in[first:i], p.out[first:i], p.found[first:i])
	}
	return i - first
}

// takeOthers finishes the first packet, and those behind it up to one that needs no job. It returns their number.
func (e *Engine) takeOthers(p *foundPackets, first, end int, rest bool) int {
	i := first
	for ; i == first || i < end && !(admitted(p.results[i]) && e.esp.Opener(uint32(p.found[i])) != nil); i++ {
		e.takeWithJob(p, i, true, rest)
	}
	e.confirmFound(p.in[first:i], p.out[first:i], p.jobs[first:i])
	return i - first
}
