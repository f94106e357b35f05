package esp

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/inspect"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/prefetch"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
)

// block is the number of packets that pass the stage together, at most inspect.Block. Their headers
// fit the first-level cache.
const block = 64

// Stage applies the policies and SAs of a gateway to the packets of one worker.
type Stage struct {
	gateway          *gateway.Gateway
	worker           int // index of the worker's state in each SA
	fib              *fib.FIB
	groups           []uint32 // of the FIB, by bucket
	frames           inspect.Frames
	partialChecksums []bool // by ingress port: frames may have partial L4 checksums
	sources          inspect.ReversePath
	lookups          gateway.Lookups
	keys             uint32 // the device has the keys with numbers below, see Begin
	hostDecryptsCBC  bool   // see SetHostDecryptsCBC
	opensInner       bool   // see OpensInner

	// Received ESP packets of the block, with the SA that decrypts each. Indices are into the block.
	toOpen struct {
		n  int
		at [block]int32
		sa [block]*ipsec.SA
	}

	// Plaintext packets of the block, with the SA that decrypted each, their flows, and the
	// results of the policies: of inbound ones, and the SA to leave by of outbound ones.
	n        int
	at       [block]int32
	inSA     [block]*ipsec.SA
	l4       [block]packet.L4 // of IPv6 packets
	flows    [block]gateway.Flow
	inbound  [block]ipsec.Error
	outbound [block]ipsec.Error
	outSA    [block]*ipsec.SA
	mtus     [block]int // of the SA's route and path

	classified classified

	hasInterfaces bool // the gateway has XFRM interfaces, for which routed is filled in
	routed        routed

	distinctSAs [block]*ipsec.SA // see distinct and openJobs
	seqs        [block]uint64    // see confirmAdmitted
	fresh       [block]bool      // see confirmAdmitted
	touched     uint64           // keeps the loads of ipsec.Prefetch alive
	aead, hmac  int              // see Protected
	received    int              // see Received
	sealers     byKey[Sealer]
	openers     byKey[opener]
	opened      openedPackets
	sealed      int                  // packets of the chunk that a device has sealed
	low         *ipsec.SA            // see EndSealed
	counts      [block]*ipsec.Counts // see AcceptSealed
	sizes       [block]uint64        // see AcceptSealed
	firstSA     *ipsec.SA            // see FirstSA
	firstCount  int                  // see FirstSA
}

// New returns the stage of a worker. partialChecksums is by ingress port: true if received frames may
// have partial L4 checksums.
func New(f *fib.FIB, frames inspect.Frames, partialChecksums []bool, g *gateway.Gateway, worker int) *Stage {
	return &Stage{
		gateway: g, worker: worker, fib: f, groups: f.Words().Groups, frames: frames, partialChecksums: partialChecksums,
		sources: inspect.ReversePath{FIB: f}, lookups: gateway.NewLookups(),
	}
}

// Apply applies the policies to a chunk that the CPU decides on. Packets without a verdict
// afterwards are to be looked up; ESP was decrypted, and packets to be protected are ESP.
func (s *Stage) Apply(in []batch.Frame, out []batch.Result) {
	clear(out)
	s.startCounts()
	s.apply(in, out, nil, s.fib.HasRPF())
}

// Begin applies the policies to a chunk that a device decides on, and makes jobs of the
// cryptography that the device can do: for SAs with key numbers below keys. The host does the
// rest. It returns the number of packets that need more than a lookup.
func (s *Stage) Begin(in []batch.Frame, out []batch.Result, jobs []Job, keys uint32) (n int) {
	clear(out)
	s.startCounts()
	s.keys, jobs = keys, jobs[:len(in)]
	for i := range jobs {
		jobs[i].reset()
	}
	s.apply(in, out, jobs, s.fib.HasRPF())
	for i := range jobs {
		if jobs[i].Kind != Plain {
			n++
		}
	}
	return n
}

// SetClock sets the clock of the SAs, for their lifetimes.
func (s *Stage) SetClock() { s.gateway.Clock.Set(batch.Clock()) }

// startCounts starts the counters of a chunk, and sets the clock of SAs.
func (s *Stage) startCounts() {
	s.SetClock()
	s.aead, s.hmac, s.received = 0, 0, 0
	s.firstSA, s.firstCount = nil, 0
	s.opensInner = false
}

// OpensInner reports whether the last chunk has jobs to decrypt inner packets of ESP that the host has decrypted.
func (s *Stage) OpensInner() bool { return s.opensInner }

// Protected returns the numbers of packets of the last chunk that SAs encrypt or decrypt, by AEAD and with
// HMAC. A block's packets of a direction count for the suite of their first SA.
func (s *Stage) Protected() (aead, hmac int) { return s.aead, s.hmac }

// Received returns the number of received ESP packets of the last chunk that SAs decrypt.
func (s *Stage) Received() int { return s.received }

// countReceived counts n packets of a block that SAs decrypt, the first of which is first.
func (s *Stage) countReceived(n int, first *ipsec.SA) {
	if n > 0 {
		s.countProtected(n, first)
		s.received += n
	}
}

func (s *Stage) countProtected(n int, first *ipsec.SA) {
	if first.Combined() {
		s.aead += n
	} else {
		s.hmac += n
	}
}

// apply passes a chunk through the stage by the block. The headers of the next block are
// prefetched meanwhile. With verify, it applies reverse path filtering.
func (s *Stage) apply(in []batch.Frame, out []batch.Result, jobs []Job, verify bool) {
	s.prefetchHeaders(in[:min(block, len(in))], jobs)
	for start := 0; start < len(in); start += block {
		end := min(start+block, len(in))
		if next := in[end:min(end+block, len(in))]; jobs == nil {
			s.prefetchHeaders(next, nil)
		} else {
			s.prefetchHeaders(next, jobs[end:])
		}
		var blockJobs []Job
		if jobs != nil {
			blockJobs = jobs[start:end]
		}
		if verify {
			s.sources.Check(&s.frames, in[start:end], out[start:end])
		}
		s.applyBlock(in[start:end], out[start:end], blockJobs, nil)
	}
}

// prefetchHeaders prefetches the headers of a block of packets, unless a device has classified all of them.
func (s *Stage) prefetchHeaders(in []batch.Frame, jobs []Job) {
	for i := range in {
		if jobs == nil || !jobs[i].Classified {
			prefetch.ReadAt(s.frames.Mem, in)
			return
		}
	}
}

// applyBlock passes a block through the steps of the package comment. Packets with a verdict
// are skipped. If by is not nil, the packets were decrypted by that SA.
func (s *Stage) applyBlock(in []batch.Frame, out []batch.Result, jobs []Job, by *ipsec.SA) {
	s.n, s.toOpen.n = 0, 0
	if s.takeClassified(in, jobs); s.classified.n < len(in) {
		s.classifyAll(in, out, jobs, by)
	}
	s.processInbound(in, out, jobs, by != nil)
	s.lookUpPolicies(in)
	s.checkICMPErrorPolicy(in)
	s.processOutbound(in, out, jobs)
}

// jobOf returns the job of packet i, nil without a device.
func jobOf(jobs []Job, i int) *Job {
	if jobs == nil {
		return nil
	}
	return &jobs[i]
}

// setDrop stores the drop of a packet. The packet is marked as PolicyDone unless the policies are to
// be applied again: to its fragments, or when its SA was added.
func setDrop(f *batch.Frame, r *batch.Result, job *Job, drop batch.Result) {
	if job != nil {
		job.Kind = Decided
	}
	*r = drop
	if reason := drop.Verdict.Reason(); reason != batch.MTUExceeded && reason != batch.XfrmInNoStates {
		f.Origin = f.Origin.With(batch.PolicyDone)
	}
}

// dropFor returns the result that drops a packet for an error, the zero result for ipsec.OK.
func dropFor(err ipsec.Error) batch.Result { return batch.DropFor(ReasonOf(err)) }

// ReasonOf returns the drop reason of an error, inspect.OK for ipsec.OK.
func ReasonOf(err ipsec.Error) batch.Reason {
	switch err {
	case ipsec.OK:
		return inspect.OK
	case ipsec.PolicyRefused:
		return batch.XfrmPolicyRefused
	case ipsec.OutNoPols:
		return batch.XfrmOutNoPols
	}
	return batch.XfrmInHdrError + batch.Reason(err-ipsec.InHdrError)
}

// distinct returns the SAs of packets, without repetitions in a row. The result is valid until
// the next call.
func (s *Stage) distinct(of []*ipsec.SA) []*ipsec.SA {
	n := 0
	var last *ipsec.SA
	for _, sa := range of {
		if sa != nil && sa != last {
			s.distinctSAs[n] = sa
			n++
			last = sa
		}
	}
	return s.distinctSAs[:n]
}
