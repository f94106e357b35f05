package gpu

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/packet"
)

// checker checks the results of a GPU before packets are transmitted. A packet with an impossible result
// is dropped as gpu_bad_result, and the device is taken out of use: it may have bad memory, and its next
// error may pass all checks.
//
// Chunks that the device finished before are still accepted, deliberately: each result is checked by
// itself, and a wrong result that is possible is no likelier in them than in chunks that were transmitted
// before the detection. Unfinished chunks are abandoned.
//
// A canary detects packets that were not encrypted: the host writes it to the last bytes of the ICV,
// which the GPU overwrites. Copied results are cleared, which detects a GPU that reports a chunk as done
// without writing results.
type checker struct {
	umem        []byte
	state       *deviceState
	ports       int // number of ports in verdicts
	adjacencies int // number of adjacencies in verdicts
	tags        *fib.TagWords
	canary      uint64
}

const (
	canaryBytes = 8
	minFrame    = packet.EthernetLen + packet.IPv4Len // shortest frame that is forwarded, in bytes
)

func newChecker(umem []byte, state *deviceState, ports int, fallback *cpu.Engine) checker {
	// Not 0 and not all ones: faulty memory reads as these.
	return checker{umem, state, cmp.Or(ports, batch.MaxPorts), fallback.Adjacencies(), fallback.Tags(), rand.Uint64()>>1 | 1}
}

// icvEnd returns the last bytes of the ICV of a packet to seal.
func (k *checker) icvEnd(f batch.Frame, job *esp.Job) []byte {
	end := int(f.Addr) + int(job.ESP) + int(job.Bytes)
	return k.umem[end-canaryBytes : end]
}

// markAll writes the canary to the packets of a chunk that are to be sealed.
func (k *checker) markAll(c *batch.Chunk, jobs []esp.Job) {
	for i := range jobs {
		if job := &jobs[i]; job.Kind == esp.Seal {
			k.mark(c.In[i], job)
		}
	}
}

// mark writes the canary to a packet to seal.
func (k *checker) mark(f batch.Frame, job *esp.Job) {
	binary.NativeEndian.PutUint64(k.icvEnd(f, job), k.canary)
}

// sealed reports whether the GPU has written an ICV: not the canary, zeros or ones.
func (k *checker) sealed(f batch.Frame, job *esp.Job) bool {
	end := binary.NativeEndian.Uint64(k.icvEnd(f, job))
	return end != k.canary && end+1 > 1
}

// possible reports whether a result is possible, without its address and length.
func (k *checker) possible(r batch.Result) bool {
	switch r.Verdict.Action() {
	case batch.ActionForward:
		return int(r.Verdict.Port()) < k.ports
	case batch.ActionHold:
		return r.Verdict == batch.Hold && int(r.Adjacency()) < k.adjacencies
	case batch.ActionDrop:
		return r.Verdict.Reason() != batch.Unprocessed
	}
	return false
}

// check checks the results of routed packets.
func (k *checker) check(in []batch.Frame, out []batch.Result) {
	out = out[:len(in)]
	forward, ports, tags := uint32(batch.Forward(0)), uint32(k.ports), k.tags
	for i := range in {
		r, f := &out[i], &in[i]
		if uint32(r.Verdict)-forward < ports {
			tag := uint16(0)
			if tags.Of(r.Verdict.Port()) != 0 {
				tag = fib.TagLen
			}
			if r.Addr()+uint32(tag) == f.Addr && r.Len() <= f.Len+tag && r.Len() >= minFrame+tag {
				continue // the common case, without a call
			}
			k.refuseImpossible(r, *f)
		} else if !k.possible(*r) {
			k.refuseImpossible(r, *f)
		}
	}
}

// checkJobs checks the results of packets with jobs, before the host finishes them. The host skips
// refused packets.
func (k *checker) checkJobs(in []batch.Frame, out []batch.Result, jobs []esp.Job) {
	out, jobs = out[:len(in)], jobs[:len(in)]
	forward, ports := uint32(batch.Forward(0)), uint32(k.ports)
	for i := range in {
		r, job := &out[i], &jobs[i]
		if job.Kind == esp.Decided {
			continue
		}
		if uint32(r.Verdict)-forward >= ports && !k.possible(*r) || job.Kind == esp.Seal && r.Verdict != notSealed && !k.sealed(in[i], job) {
			k.refuse(r, in[i])
			job.Kind = esp.Decided
		}
	}
}

// notSealed is the verdict on a packet that the GPU could not seal and did not change.
var notSealed = batch.Drop(batch.XfrmOutStateProtoError)

// checkPlaces checks the addresses and lengths of forwarded packets, after the host's last step.
func (k *checker) checkPlaces(in []batch.Frame, out []batch.Result) {
	out = out[:len(in)]
	for i := range in {
		if !inPlace(in[i], out[i]) {
			k.refuse(&out[i], in[i])
		}
	}
}

// inPlace reports whether a packet that is forwarded without a tag is in its own frame and not longer than it.
func inPlace(f batch.Frame, r batch.Result) bool {
	return r.Verdict.Action() != batch.ActionForward || r.Addr() == f.Addr && r.Len() <= f.Len && r.Len() >= minFrame
}

// refuse drops a packet of a gateway and takes the GPU out of use.
func (k *checker) refuse(r *batch.Result, f batch.Frame) {
	if k.possible(*r) && inPlace(f, *r) {
		k.fail(r, "the GPU did not encrypt a packet of %d bytes, its verdict is %v", f.Len, r.Verdict)
	} else {
		k.refuseImpossible(r, f)
	}
}

// refuseImpossible is refuse for a result that cannot be.
func (k *checker) refuseImpossible(r *batch.Result, f batch.Frame) {
	k.fail(r, "impossible GPU result: %v at %#x, %d bytes, for a packet at %#x, %d bytes", r.Verdict, r.Addr(), r.Len(), f.Addr, f.Len)
}

func (k *checker) fail(r *batch.Result, why string, args ...any) {
	if k.state.ok() {
		k.state.fail(&failure{CauseBadResult, fmt.Sprintf(why, args...)})
	}
	*r = batch.DropFor(batch.GPUBadResult)
}
