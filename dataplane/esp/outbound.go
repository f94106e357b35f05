package esp

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// The smallest MTUs that a source may be asked for, in bytes (RFC 791, RFC 8200 section 5).
const (
	minMTUIPv4 = 68
	minMTUIPv6 = 1280
)

// processOutbound applies the policies to the listed packets of a block, and protects those that they
// name an SA for. The SAs are prefetched for all packets before the first is protected.
func (s *Stage) processOutbound(in []batch.Frame, out []batch.Result, jobs []Job) {
	sas := s.distinct(s.outSA[:s.n])
	s.touched += ipsec.Prefetch(sas, s.worker, jobs == nil)
	if n := s.requestSequences(jobs); n > 0 {
		s.countProtected(n, sas[0])
	}
	unread := s.requestClassified(jobs)
	ipsec.ReserveRequested(sas, s.worker)
	ipsec.ReserveRequested(unread, s.worker)
	next := place{}
	for j := range s.n {
		i := int(s.at[j])
		next = s.sealClassified(in, out, jobs, next, i)
		f, job := &in[i], jobOf(jobs, i)
		p, drop := s.frames.Packet(*f), batch.Result{}
		switch {
		case s.inbound[j] != ipsec.OK && !f.Origin.Has(batch.Own|batch.InboundChecked):
			drop = s.inboundDrop(p, j)
		case s.outbound[j] != ipsec.OK:
			drop = dropFor(s.outbound[j])
		case s.outSA[j] == nil:
			f.Origin = f.Origin.With(batch.InboundChecked)
			if s.expired(p, j) {
				drop = batch.DropFor(batch.LocalDelivery) // the worker delivers it
			}
		case s.expired(p, j):
			drop = batch.DropFor(batch.TTLExpired)
		case job.hasSeqOf(s.outSA[j]):
			others := job.ReservedSA.Assign(s.worker, job.ReservedSeq)
			drop = s.protect(f, p, j, job.ReservedSA, job)
			job.ReservedSA.Restore(s.worker, others)
		default:
			drop = s.protect(f, p, j, s.outSA[j], job)
		}
		if drop.Verdict != 0 {
			setDrop(f, &out[i], job, drop)
		} else {
			f.Origin = f.Origin.With(batch.PolicyDone)
		}
	}
	s.sealClassified(in, out, jobs, next, len(in))
	for _, sa := range sas {
		sa.Release(s.worker)
	}
	for _, sa := range unread {
		sa.Release(s.worker)
	}
}

// requestSequences requests a sequence number for each listed packet that is to be encrypted and has none, and
// looks up the MTU of its SA. ipsec.ReserveRequested then reserves the numbers of a block together;
// each packet takes its own in SA.Encapsulate or SA.Prepare. It returns the number of requests.
func (s *Stage) requestSequences(jobs []Job) (n int) {
	var last *ipsec.SA
	mtu := 0
	for j, sa := range s.outSA[:s.n] {
		if sa == nil {
			continue
		}
		if sa != last {
			last, mtu = sa, s.mtuOf(sa)
		}
		s.mtus[j] = mtu
		if !jobOf(jobs, int(s.at[j])).hasSeqOf(sa) {
			sa.Request(s.worker, 1)
		}
		s.countFirstSA(sa, 1)
		n++
	}
	return n
}

// protect replaces listed packet j by ESP (RFC 4303 section 3.3), or makes a job of it.
func (s *Stage) protect(f *batch.Frame, p []byte, j int, sa *ipsec.SA, job *Job) batch.Result {
	if sa.Mode() == ipsec.Transport && s.isFragment(p, j) {
		if s.inSA[j] != nil {
			f.Origin = f.Origin.With(batch.InboundChecked) // it passed the inbound policies, out of a tunnel
		}
		return batch.DropToReassemble(true)
	}
	f.Origin = f.Origin.Without(batch.InboundChecked) // from an earlier attempt
	ipv4, size := p[0]>>4 == 4, packet.IPv6Len
	if ipv4 {
		size = (*packet.IPv4)(p).TotalLen()
	} else {
		size += (*packet.IPv6)(p).PayloadLen()
	}
	fits := s.fits(p, j, sa)
	if size > fits {
		if r := s.tooLarge(f, p, size, fits, j, sa); r.Verdict != 0 {
			return r
		}
	}
	if s.partialChecksums[f.Origin.Port()] {
		completeChecksum(p[:size], &s.l4[j])
	}
	switch {
	case sa.Mode() != ipsec.Tunnel: // ESP keeps the IP header; the engine decrements its TTL
	case ipv4:
		(*packet.IPv4)(p).DecrementTTL()
	default:
		(*packet.IPv6)(p).DecrementHopLimit()
	}
	if s.gateway.ClampMSS {
		clamp(p[:size], &s.l4[j], fits)
	}
	if size <= fits && s.deviceTakes(job, f, sa) {
		return dropFor(s.sealJob(f, size, sa, job))
	}
	return s.encapsulate(f, size, s.mtus[j], sa)
}

// tooLarge returns the drop of a packet that does not fit its SA, whose source or whose fragments
// are to be smaller; or the zero result if the packet is protected as it is, and its ESP
// fragmented (RFC 4301 section 8).
func (s *Stage) tooLarge(f *batch.Frame, p []byte, size, fits, j int, sa *ipsec.SA) batch.Result {
	ipv4 := p[0]>>4 == 4
	merged := f.Origin.Has(batch.Reassembled)
	switch {
	case ipv4 && p[6]&0x40 == 0 && (s.fragmentsESP(sa) || s.flows[j].ICMPError()):
		return batch.Result{} // fragments of an ICMP error would not show the policies its quotation
	case !ipv4 && size <= minMTUIPv6: // every path must carry it (RFC 8200 section 5)
		return batch.Result{}
	case !ipv4 && merged && sa.Mode() == ipsec.Transport: // its source had fragmented it
		return batch.Result{}
	case !ipv4 && !merged:
		return batch.DropTooBig(uint16(max(fits, minMTUIPv6)))
	case fits < minMTUIPv4:
		return batch.DropFor(batch.XfrmOutError)
	}
	f.Origin = f.Origin.With(batch.InboundChecked) // its fragments have passed the inbound policies
	return batch.DropTooBig(uint16(fits))
}

// fragmentsESP reports whether too large packets of an SA that may be fragmented are fragmented
// as ESP. Transport mode protects only whole packets.
func (s *Stage) fragmentsESP(sa *ipsec.SA) bool {
	return sa.MayFragment() && (sa.Mode() == ipsec.Transport || s.gateway.FragmentAfter)
}

// completeChecksum completes a partial L4 checksum. l4 is of an IPv6 packet.
func completeChecksum(p []byte, l4 *packet.L4) {
	if p[0]>>4 == 4 {
		packet.CompleteIPv4(p)
	} else if !l4.Fragment {
		packet.CompleteIPv6(p, l4.Proto, l4.Offset)
	}
}

// clamp lowers the MSS option of a TCP segment so that packets have at most mtu bytes. l4 is of an
// IPv6 packet.
func clamp(p []byte, l4 *packet.L4, mtu int) {
	const tcpLen = 20
	at, tcp := packet.IPv4Len, false
	if p[0]>>4 == 4 {
		h := (*packet.IPv4)(p)
		tcp = h.Protocol() == packet.TCP && !h.Fragmented()
	} else {
		at, tcp = l4.Offset, l4.Proto == packet.TCP && !l4.Fragment
	}
	if room := mtu - at - tcpLen; tcp && room > 0 && room < 1<<16 {
		packet.ClampMSS(p[at:], uint16(room))
	}
}

// encapsulate replaces a packet of size bytes by ESP. ESP larger than the MTU is dropped as such,
// and the router may fragment it.
func (s *Stage) encapsulate(f *batch.Frame, size, mtu int, sa *ipsec.SA) batch.Result {
	buf, at := s.tailroom(f, size)
	at, n, err := sa.Encapsulate(s.worker, buf, at, size)
	if err != ipsec.OK {
		return dropFor(err)
	}
	s.frames.SetPacket(f, at, n)
	if n <= mtu {
		return batch.Result{}
	}
	f.Origin = f.Origin.With(batch.PolicyDone)
	if p := s.frames.Packet(*f); p[0]>>4 == 4 { // RFC 4213 section 3.2.2
		(*packet.IPv4)(p).ClearDF()
	}
	return batch.DropTooBigESP(uint16(mtu))
}

// tailroom returns the memory of a frame and the offset of its packet of size bytes, with room for an
// ESP trailer and ICV behind it. On a port with an MTU above 1,776 bytes a packet may fill its frame to
// the end; it is moved into the headroom.
func (s *Stage) tailroom(f *batch.Frame, size int) (buf []byte, at int) {
	const (
		tail    = 64              // padding, trailer and ICV at most; a multiple of 16, which keeps the packet's alignment
		outer   = 40 + 8 + 8 + 16 // IPv6, UDP, ESP, IV
		minimum = packet.EthernetLen + outer
	)
	buf, at, _ = s.frames.Room(*f)
	reassembled := len(buf) > umem.LargeSize // has room for every ESP of at most 64 KiB
	if at+size+tail > len(buf) && at-tail >= minimum && !reassembled {
		copy(buf[at-tail-packet.EthernetLen:], buf[at-packet.EthernetLen:at+size])
		at -= tail
		s.frames.SetPacket(f, at, size)
	}
	return buf, at
}

// sealJob makes a packet of size bytes a job to seal: its headers are written.
func (s *Stage) sealJob(f *batch.Frame, size int, sa *ipsec.SA, job *Job) ipsec.Error {
	var o ipsec.Outgoing
	buf, at := s.tailroom(f, size)
	if err := sa.Prepare(s.worker, buf, at, size, &o); err != ipsec.OK {
		return err
	}
	s.frames.SetPacket(f, o.At, o.Len)
	job.ESP, job.Bytes = uint16(o.ESP-o.At+packet.EthernetLen), uint16(o.At+o.Len-o.ESP)
	job.set(Seal, sa, o.Seq)
	return ipsec.OK
}
