package esp

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

// maxNested is the number of ESP headers that are removed from a packet at most.
const maxNested = 4

// openAll decrypts the ESP packets of a block, or makes tasks of them. nested is true if the
// block was decrypted once already.
func (s *Stage) openAll(in []batch.Frame, out []batch.Result, tasks []Task, nested bool) {
	sas := s.sealed.by[:s.sealed.n]
	s.touched += ipsec.Prefetch(s.distinct(sas), s.worker, tasks == nil)
	for j, sa := range sas {
		i := int(s.sealed.at[j])
		t := taskOf(tasks, i)
		if drop := s.open(&in[i], i, nested, sa, t); drop.Verdict != 0 {
			settle(&in[i], &out[i], t, drop)
		}
	}
}

// open removes all ESP headers of packet i and lists what they protected for the policies, or
// makes a task of the packet.
func (s *Stage) open(f *batch.Frame, i int, nested bool, sa *ipsec.SA, t *Task) batch.Result {
	depth := 0
	if nested {
		depth = 1
	}
	if depth == 0 && s.deviceTakes(t, f, sa) {
		return dropFor(s.findESP(f, sa, t))
	}
	for ; depth < maxNested; depth++ {
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
			f.Origin = f.Origin.Without(batch.Merged)
		}
	}
	return err
}

// findESP makes an ESP packet a task to open.
func (s *Stage) findESP(f *batch.Frame, sa *ipsec.SA, t *Task) ipsec.Error {
	var in ipsec.Incoming
	buf, at, n := s.frames.Room(*f)
	if err := sa.Find(s.worker, buf, at, n, &in); err != ipsec.OK {
		return err
	}
	t.ESP, t.Bytes = uint16(in.ESP-at+packet.EthernetLen), uint16(in.End-in.ESP)
	t.set(Open, sa, in.Seq)
	t.Header, t.NextAt, t.TOS = uint16(in.Header), uint16(in.NextAt), in.TOS
	return ipsec.OK
}
