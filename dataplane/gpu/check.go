package gpu

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/packet"
)

// checker checks a GPU's results before any packet is transmitted by them. A packet whose
// result cannot be right is dropped as gpu_bad_result, and the device is out of use: it may
// have bad memory, and its next error may be one that no check finds.
//
// Whether a packet was encrypted is seen by a canary: the host writes it into the last bytes
// of the ICV's place, which the GPU overwrites when it seals the packet. Results that were
// copied are cleared, so that a GPU which says that it is done, and is not, is found as well.
type checker struct {
	umem        []byte
	health      *health
	ports       int // verdicts name ports below
	adjacencies int // holds name adjacencies below
	canary      uint64
}

const (
	canaryBytes = 8
	minFrame    = packet.EthernetLen + packet.IPv4Len // shortest frame that is forwarded, in bytes
)

func newChecker(umem []byte, h *health, ports, adjacencies int) checker {
	// A canary of 0 or of all ones would be what faulty memory reads as.
	return checker{umem, h, cmp.Or(ports, batch.MaxPorts), adjacencies, rand.Uint64()>>1 | 1}
}

// icvEnd returns the last bytes of a packet that is to be sealed, all of them the ICV's.
func (k *checker) icvEnd(f batch.Frame, t *cpu.Task) []byte {
	end := int(f.Addr) + int(t.ESP) + int(t.Bytes)
	return k.umem[end-canaryBytes : end]
}

// mark writes the canary into a packet that is to be sealed.
func (k *checker) mark(f batch.Frame, t *cpu.Task) {
	binary.NativeEndian.PutUint64(k.icvEnd(f, t), k.canary)
}

// sealed reports whether the GPU has written an ICV: not the canary, and not what memory
// reads as that fails or was cleared.
func (k *checker) sealed(f batch.Frame, t *cpu.Task) bool {
	end := binary.NativeEndian.Uint64(k.icvEnd(f, t))
	return end != k.canary && end+1 > 1
}

// possible reports whether a GPU can have meant a result, its place aside.
func (k *checker) possible(r batch.Result) bool {
	switch r.Verdict.Action() {
	case batch.ActionForward:
		return int(r.Verdict.Port()) < k.ports
	case batch.ActionHold:
		return r.Verdict == batch.Hold && int(r.Addr) < k.adjacencies
	case batch.ActionDrop:
		return r.Verdict.Reason() != batch.Unprocessed
	}
	return false
}

// check checks the results of packets that the GPU had nothing to do with but to route them.
func (k *checker) check(in []batch.Frame, out []batch.Result) {
	out = out[:len(in)]
	forward, ports := uint32(batch.Forward(0)), uint32(k.ports)
	for i := range in {
		r, f := &out[i], &in[i]
		if uint32(r.Verdict)-forward < ports && r.Addr == f.Addr && r.Len <= f.Len && r.Len >= minFrame {
			continue // most of them, without a call
		}
		if !k.possible(*r) || !inPlace(*f, *r) {
			k.refuse(r, *f)
		}
	}
}

// checkTasks checks the results of packets with tasks, before the host has the last word on
// them. It has no word on those that are refused.
func (k *checker) checkTasks(in []batch.Frame, out []batch.Result, tasks []cpu.Task) {
	out, tasks = out[:len(in)], tasks[:len(in)]
	forward, ports := uint32(batch.Forward(0)), uint32(k.ports)
	for i := range in {
		r, t := &out[i], &tasks[i]
		if t.Kind == cpu.Settled {
			continue
		}
		if uint32(r.Verdict)-forward >= ports && !k.possible(*r) || t.Kind == cpu.Seal && r.Verdict != notSealed && !k.sealed(in[i], t) {
			k.refuse(r, in[i])
			t.Kind = cpu.Settled
		}
	}
}

// notSealed is the verdict on a packet that the GPU could not seal, which leaves it as it was.
var notSealed = batch.Drop(batch.XfrmOutStateProtoError)

// checkPlaces checks where forwarded packets are. in says so by then, as the host has it.
func (k *checker) checkPlaces(in []batch.Frame, out []batch.Result) {
	out = out[:len(in)]
	for i := range in {
		if !inPlace(in[i], out[i]) {
			k.refuse(&out[i], in[i])
		}
	}
}

// inPlace reports whether a packet, if it is forwarded, is in its own frame, and no longer
// than what is there.
func inPlace(f batch.Frame, r batch.Result) bool {
	return r.Verdict.Action() != batch.ActionForward || r.Addr == f.Addr && r.Len <= f.Len && r.Len >= minFrame
}

// refuse drops a packet for its result, and takes the GPU out of use.
func (k *checker) refuse(r *batch.Result, f batch.Frame) {
	if k.health.ok() {
		why := fmt.Sprintf("the GPU's result cannot be right: %v at %#x, %d bytes, for a packet at %#x, %d bytes", r.Verdict, r.Addr, r.Len, f.Addr, f.Len)
		if k.possible(*r) && inPlace(f, *r) {
			why = fmt.Sprintf("the GPU left a packet of %d bytes unencrypted, and its verdict is %v", f.Len, r.Verdict)
		}
		k.health.fail(&distrust{CauseBadResult, why})
	}
	*r = batch.Result{Verdict: batch.Drop(batch.GPUBadResult)}
}
