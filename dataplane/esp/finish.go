package esp

import (
	"encoding/binary"
	"slices"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/prefetch"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

// Finish applies replay windows and policies to the packets of a chunk that a device has opened and
// decided on. in has the frames as they were received. It returns the number of jobs with
// Reroute: their packets were decrypted or encrypted once more, and need another lookup.
func (s *Stage) Finish(in []batch.Frame, out []batch.Result, jobs []Job) (rerouted int) {
	if !anyOpen(jobs) {
		return 0
	}
	s.prefetchOpened(out[:min(block, len(out))], jobs)
	for start := 0; start < len(in); start += block {
		end := min(start+block, len(in))
		ipsec.PrefetchCounts(s.openJobs(jobs[start:end]), s.worker)
		s.prefetchOpened(out[end:min(end+block, len(out))], jobs[end:])
		rerouted += s.finishBlock(in[start:end], out[start:end], jobs[start:end])
	}
	return rerouted
}

func anyOpen(jobs []Job) bool {
	for i := range jobs {
		if jobs[i].Kind == Open {
			return true
		}
	}
	return false
}

// prefetchOpened prefetches the SAs of a block of packets that a device has opened, and the headers that the
// host reads: the device wrote them to memory.
func (s *Stage) prefetchOpened(out []batch.Result, jobs []Job) {
	jobs = jobs[:len(out)]
	if slices.ContainsFunc(jobs, func(job Job) bool { return job.Kind == Open && !job.Admitted }) {
		prefetch.ReadAt(s.frames.Mem[packet.EthernetLen:], out)
		prefetch.ReadAt(s.frames.Mem[packet.EthernetLen+packet.IPv4Len:], out) // ports may be in the next line
	}
	ipsec.PrefetchInbound(s.openJobs(jobs))
}

// openJobs returns the SAs of packets that a device has opened, valid until the next call.
func (s *Stage) openJobs(jobs []Job) []*ipsec.SA {
	n := 0
	for i := range jobs {
		if job := &jobs[i]; job.Kind == Open {
			s.distinctSAs[n] = job.SA
			n++
		}
	}
	return s.distinctSAs[:n]
}

// finishBlock confirms the opened packets of a block and applies the policies to them. Packets that are
// ESP again, or are to be encrypted, pass the stage once more. It returns the number of jobs with Reroute.
func (s *Stage) finishBlock(in []batch.Frame, out []batch.Result, jobs []Job) (n int) {
	s.n = 0
	var again [block]bool
	for i := 0; i < len(jobs); {
		n, job := 1, &jobs[i]
		switch {
		case job.Kind != Open:
		case job.Admitted && i+1 < len(jobs) && jobs[i+1].Admitted && jobs[i+1].SA == job.SA:
			n = s.confirmAdmitted(in[i:], out[i:], jobs[i:])
		default:
			again[i] = s.confirm(&in[i], &out[i], job, i)
		}
		i += n
	}
	if s.n > 0 {
		s.lookUpPolicies(in)
		s.checkICMPErrorPolicy(in)
	}
	for j := range s.n {
		i := int(s.at[j])
		switch {
		case s.inbound[j] != ipsec.OK && !in[i].Origin.Has(batch.Own):
			out[i] = dropFor(s.inbound[j])
		case s.outbound[j] != ipsec.OK:
			out[i] = dropFor(s.outbound[j])
		case s.outSA[j] != nil:
			again[i] = true
		default:
			in[i].Origin = in[i].Origin.With(batch.InboundChecked)
			if out[i].Verdict == batch.Drop(batch.TTLExpired) {
				out[i] = batch.DropFor(batch.LocalDelivery)
			}
		}
	}
	for i := range jobs {
		if again[i] {
			if s.repass(&in[i], &out[i], &jobs[i]); jobs[i].Reroute {
				n++
			}
		}
	}
	return n
}

// confirmAdmitted applies the replay window to the first packets of a block that one SA has decrypted and the
// device has admitted, as many as follow each other, and returns their number.
func (s *Stage) confirmAdmitted(in []batch.Frame, out []batch.Result, jobs []Job) (n int) {
	sa := jobs[0].SA
	for n < len(jobs) && jobs[n].Kind == Open && jobs[n].Admitted && jobs[n].SA == sa {
		s.seqs[n] = jobs[n].Seq
		n++
	}
	fresh := &s.fresh
	sa.ConfirmAll(s.worker, s.seqs[:n], fresh[:])
	packets, bytes := uint64(0), uint64(0)
	for i := range n {
		f, r := &in[i], &out[i]
		f.Origin = f.Origin.With(batch.PolicyDone)
		if !fresh[i] {
			*r = batch.DropFor(batch.XfrmInStateSeqError)
			continue
		}
		size := uint64(r.Len() - packet.EthernetLen)
		f.Addr, f.Len, f.Origin = r.Addr(), r.Len(), f.Origin.With(batch.InboundChecked)
		switch {
		case !sa.Limited():
			packets, bytes = packets+1, bytes+size
		case !sa.Count(s.worker, 1, size):
			*r = batch.DropFor(batch.XfrmInStateExpired)
		}
	}
	if packets > 0 {
		sa.Count(s.worker, packets, bytes)
	}
	return n
}

// confirm applies the replay window to packet i of a block, and lists the inner packet for the
// policies, unless it is dropped. It returns true if the inner packet is ESP, too.
func (s *Stage) confirm(f *batch.Frame, r *batch.Result, job *Job, i int) (nested bool) {
	f.Origin = f.Origin.With(batch.PolicyDone)
	if err := job.SA.Confirm(s.worker, job.Seq, !r.ICVFailed()); err != ipsec.OK {
		*r = dropFor(err)
		return false
	}
	if DroppedESP(r.Verdict) {
		*r = batch.Result{Verdict: r.Verdict}
		return false
	}
	if job.Admitted {
		if !job.SA.Count(s.worker, 1, uint64(r.Len()-packet.EthernetLen)) {
			*r = batch.DropFor(batch.XfrmInStateExpired)
		}
		f.Addr, f.Len, f.Origin = r.Addr(), r.Len(), f.Origin.With(batch.InboundChecked)
		return false
	}
	p := s.setInner(f, job)
	switch {
	case p == nil:
		*r = batch.DropFor(batch.XfrmInStateProtoError)
	case !job.SA.Count(s.worker, 1, uint64(len(p))):
		*r = batch.DropFor(batch.XfrmInStateExpired)
	case droppedInvalid(r.Verdict):
	case s.isNested(p):
		return true
	case r.Verdict == batch.Drop(batch.TTLExpired) && !s.forHost(p, &s.l4[s.n]): // dropped without a policy
	default:
		s.listOpened(p, i, job.SA)
	}
	return false
}

// DroppedESP reports whether a device dropped a packet because of its ESP: it did not decrypt it, or the
// decrypted payload is malformed. (Reasons of headers and routes precede those of IPsec.)
func DroppedESP(v batch.Verdict) bool {
	return v.Action() == batch.ActionDrop && v.Reason() >= batch.XfrmInHdrError
}

// droppedInvalid reports whether a device dropped a packet because its inner headers are invalid. (Their
// reasons precede those of routes.)
func droppedInvalid(v batch.Verdict) bool {
	return v.Action() == batch.ActionDrop && v.Reason() < batch.NoRoute && v.Reason() != batch.TTLExpired
}

// isNested reports whether a decrypted packet is ESP for this router, too.
func (s *Stage) isNested(p []byte) bool {
	sa, err := s.inboundSA(p)
	return sa != nil || err != ipsec.OK
}

// listOpened lists a packet that the device has validated.
func (s *Stage) listOpened(p []byte, i int, by *ipsec.SA) {
	if p[0]>>4 == 6 {
		l4 := packet.L4{Proto: (*packet.IPv6)(p).NextHeader(), Offset: packet.IPv6Len}
		if l4.Proto.IsExtension() {
			l4, _ = packet.FindL4(p)
		}
		s.l4[s.n] = l4
	}
	s.list(p, i, by)
}

// inner returns the offset of the inner packet in a frame, as it was received, and the largest end that it can
// have.
func (job *Job) inner() (at, end int) {
	at, end = int(job.ESP)+headerLen+job.SA.IVLen(), int(job.ESP)+int(job.Bytes)
	if job.Mode == ipsec.Transport {
		at -= int(job.Header)
	}
	return at, end
}

// setInner makes the inner packet that of the frame, and returns it; nil if the device left no whole
// packet there.
func (s *Stage) setInner(f *batch.Frame, job *Job) []byte {
	buf, at, _ := s.frames.Room(*f)
	from, end := job.inner()
	at, end = at+from-packet.EthernetLen, at+end-packet.EthernetLen
	p := buf[at:end]
	if len(p) < packet.IPv4Len {
		return nil
	}
	var size, least int
	switch p[0] >> 4 {
	case 4:
		size, least = int(binary.BigEndian.Uint16(p[2:])), packet.IPv4Len
	case 6:
		size, least = packet.IPv6Len+int(binary.BigEndian.Uint16(p[4:])), packet.IPv6Len
	default:
		return nil
	}
	if size < least || size > len(p) {
		return nil
	}
	s.frames.SetPacket(f, at, size)
	return p[:size]
}

// repass passes a packet through the stage once more, as it was before the device routed it.
func (s *Stage) repass(f *batch.Frame, r *batch.Result, job *Job) {
	if r.Verdict.Action() == batch.ActionForward {
		p := s.frames.Packet(*f)
		if p[0]>>4 == 4 {
			p[8]++
			p[10], p[11] = 0, 0
			binary.BigEndian.PutUint16(p[10:], packet.Checksum(p[:packet.IPv4Len]))
		} else {
			p[7]++
		}
	}
	f.Origin = f.Origin.Without(batch.PolicyDone)
	in, out := [1]batch.Frame{*f}, [1]batch.Result{}
	s.applyBlock(in[:], out[:], nil, job.SA)
	*f, *r = in[0], out[0]
	job.Reroute = r.Verdict == 0
}
