package batch

import "math"

// Result is the decision of an engine on one frame. It is 8 bytes with the same layout on the
// GPU. The verdict decides which accessors have a meaning.
type Result struct {
	arg     uint32
	size    uint16
	Verdict Verdict
}

// Values of arg and size that qualify a drop.
const (
	routerFragments = math.MaxUint32 // arg of MTUExceeded
	knownSA         = 1              // arg of FragmentsMissing

	// ICVFailureSize is the size of a drop as XfrmInStateProtoError because of the ICV. Devices write it.
	ICVFailureSize = 1
)

// MakeResult returns a result in the words of a device.
func MakeResult(arg uint32, size uint16, v Verdict) Result { return Result{arg, size, v} }

// ForwardTo returns the result that sends n bytes at an address of the UMEM out of a port.
func ForwardTo(port uint16, addr uint32, n uint16) Result { return Result{addr, n, Forward(port)} }

// FrameWord returns the word of a frame that is forwarded: that of its result, as in Words, with the origin of the received
// frame in place of the verdict.
func FrameWord(result uint64, o Origin) uint64 { return result<<16>>16 | uint64(o)<<48 }

// HoldFor returns the result that keeps a packet until an adjacency is resolved.
func HoldFor(adjacency uint32) Result { return Result{arg: adjacency, Verdict: Hold} }

// DropFor returns the result that drops a packet. The zero Reason gives the zero Result.
func DropFor(r Reason) Result { return Result{Verdict: Drop(r)} }

// DropTooBig returns the drop of a packet that exceeds an MTU in bytes.
func DropTooBig(mtu uint16) Result { return Result{size: mtu, Verdict: Drop(MTUExceeded)} }

// DropTooBigESP returns the drop of an ESP packet of this router that exceeds an MTU. The router
// may fragment it whatever it carries, IPv6 too.
func DropTooBigESP(mtu uint16) Result {
	return Result{routerFragments, mtu, Drop(MTUExceeded)}
}

// DropToReassemble returns the drop of a fragment that the worker is to reassemble. Fragments with a
// known SA take precedence over others.
func DropToReassemble(saKnown bool) Result {
	r := DropFor(FragmentsMissing)
	if saKnown {
		r.arg = knownSA
	}
	return r
}

// DropICVFailure returns the drop of a packet that failed authentication. Other drops that a device
// makes as XfrmInStateProtoError are of authentic packets.
func DropICVFailure() Result {
	return Result{size: ICVFailureSize, Verdict: Drop(XfrmInStateProtoError)}
}

// Addr returns the address in the UMEM of a frame that is forwarded. The engine may have added a VLAN tag (fib.TagWords).
func (r Result) Addr() uint32 { return r.arg }

// Len returns the length in bytes of a frame that is forwarded, with a VLAN tag, without L2 padding.
func (r Result) Len() uint16 { return r.size }

// Adjacency returns the unresolved adjacency of a packet on hold.
func (r Result) Adjacency() uint32 { return r.arg }

// MTU returns the MTU in bytes that a packet dropped as MTUExceeded exceeds, 0 for other results.
func (r Result) MTU() uint16 {
	if r.Verdict == Drop(MTUExceeded) {
		return r.size
	}
	return 0
}

// RouterFragments reports whether a packet is ESP of this router that exceeds its MTU.
func (r Result) RouterFragments() bool {
	return r.Verdict == Drop(MTUExceeded) && r.arg == routerFragments
}

// KnownSA reports whether a packet is a fragment to reassemble, and an SA exists for it.
func (r Result) KnownSA() bool { return r.Verdict == Drop(FragmentsMissing) && r.arg == knownSA }

// ICVFailed reports whether a device dropped a packet because its ICV does not match.
func (r Result) ICVFailed() bool {
	return r.Verdict == Drop(XfrmInStateProtoError) && r.size == ICVFailureSize
}
