package esp

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

// maxNested is the largest number of ESP headers of a packet, one in another, that are removed.
const maxNested = 4

// processInbound decrypts the ESP packets of a block, or makes jobs of them. nested is true if the
// block was decrypted once already.
func (s *Stage) processInbound(in []batch.Frame, out []batch.Result, jobs []Job, nested bool) {
	sas := s.toOpen.sa[:s.toOpen.n]
	s.touched += ipsec.Prefetch(s.distinct(sas), s.worker, jobs == nil)
	if len(sas) > 0 {
		s.countReceived(len(sas), sas[0])
	}
	for j, sa := range sas {
		i := int(s.toOpen.at[j])
		job := jobOf(jobs, i)
		if drop := s.open(&in[i], i, nested, sa, job); drop.Verdict != 0 {
			setDrop(&in[i], &out[i], job, drop)
		}
	}
}

// open decrypts packet i, repeatedly if it is ESP in ESP, and lists the inner packet for the policies;
// or it makes a job of the packet, or of the inner one if the host decrypts the outer one (HostDecrypts).
func (s *Stage) open(f *batch.Frame, i int, nested bool, sa *ipsec.SA, job *Job) batch.Result {
	depth := 0
	if nested {
		depth = 1
	}
	for ; depth < maxNested; depth++ {
		if !nested && s.deviceTakes(job, f, sa) && !s.HostDecrypts(sa) {
			s.opensInner = s.opensInner || depth > 0
			return dropFor(s.openJob(f, sa, job))
		}
		if err := s.decapsulate(f, sa); err != ipsec.OK {
			return dropFor(err)
		}
		inner, drop := s.classify(s.frames.Bytes(*f), i, sa)
		if inner == nil {
			return drop
		}
		sa = inner
	}
	return batch.DropFor(batch.XfrmInHdrError)
}

// decapsulate replaces an ESP packet by the packet that it protects (RFC 4303 section 3.4).
func (s *Stage) decapsulate(f *batch.Frame, sa *ipsec.SA) ipsec.Error {
	buf, at, n := s.frames.Room(*f)
	at, n, err := sa.Decapsulate(s.worker, buf, at, n)
	if err == ipsec.OK {
		s.frames.SetPacket(f, at, n)
		if sa.Mode() == ipsec.Tunnel { // the inner packet has another source
			f.Origin = f.Origin.Without(batch.Reassembled)
		}
	}
	return err
}

// openJob makes an ESP packet a job to open.
func (s *Stage) openJob(f *batch.Frame, sa *ipsec.SA, job *Job) ipsec.Error {
	var in ipsec.Incoming
	buf, at, n := s.frames.Room(*f)
	if err := sa.Find(s.worker, buf, at, n, &in); err != ipsec.OK {
		return err
	}
	job.ESP, job.Bytes = uint16(in.ESP-at+packet.EthernetLen), uint16(in.End-in.ESP)
	job.set(Open, sa, in.Seq)
	job.Header, job.NextAt, job.TOS = uint16(in.Header), uint16(in.NextAt), in.TOS
	return ipsec.OK
}
