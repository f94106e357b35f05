package esp

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// A device that has the policies can classify received plaintext: it names the tunnel of packets that are to be
// sealed, and the host takes their sequence numbers without having read them. The device then writes
// their headers and encrypts them. The host processes packets that the device leaves to it, and those for which
// the device's answer does not suffice, as without a device.

// classified are the packets of a block that a device has classified, in order, and their SAs. Indices are into the block.
type classified struct {
	n    int
	at   [block]int32
	runs int
	run  [block]run
	sas  [block]*ipsec.SA // see distinct
}

// run is the packets of one SA that follow each other in the list.
type run struct {
	sa  *ipsec.SA
	end int // of its places in the list
}

// Classifies reports whether a device may classify plaintext: not with reverse path filtering, for which the host looks
// at every source, and not with XFRM interfaces, whose policies depend on routes.
func (s *Stage) Classifies() bool { return s.Finds() && s.gateway.Interfaces() == nil }

// Clamps reports whether the host lowers MSS options of packets to seal.
func (s *Stage) Clamps() bool { return s.gateway.ClampMSS }

// Classified records that a device has classified a packet of size bytes: it is to be sealed by a tunnel. It is called
// before Rest.
func (s *Stage) Classified(job *Job, tunnel uint32, size uint16) {
	job.Classified, job.Tunnel, job.Bytes = true, tunnel, size
}

// takeClassified lists the classified packets of a block that the device can seal. The others lose the mark: the host
// reads them.
func (s *Stage) takeClassified(in []batch.Frame, jobs []Job) {
	c := &s.classified
	c.find(s.gateway, jobs)
	if c.n == 0 {
		return
	}
	s.touched += ipsec.Prefetch(c.distinct(), s.worker, false)
	listed, n, runs := c.run, 0, 0
	k := 0
	for _, r := range listed[:c.runs] {
		var fits, front, header int
		if r.sa != nil && r.sa.Mode() == ipsec.Tunnel && r.sa.KeyIndex() < s.keys {
			fits = r.sa.InnerMTU(s.mtuOf(r.sa), nil)
			front, header = r.sa.HeaderLens()
		}
		first := n
		for ; k < r.end; k++ {
			i := c.at[k]
			if f, job := &in[i], &jobs[i]; int(job.Bytes) <= fits && s.sealsUnread(f, job, r.sa, front, header) {
				c.at[n] = i
				n++
			} else {
				job.Classified = false
			}
		}
		if n > first {
			c.run[runs] = run{r.sa, n}
			runs++
		}
	}
	c.n, c.runs = n, runs
}

// find lists the classified packets of a block, with the SAs of their tunnels, nil for tunnels without one.
func (c *classified) find(g *gateway.Gateway, jobs []Job) {
	c.n, c.runs = 0, 0
	tunnel := uint32(0)
	for i := range jobs {
		job := &jobs[i]
		if !job.Classified {
			continue
		}
		if c.n == 0 || job.Tunnel != tunnel {
			tunnel = job.Tunnel
			c.run[c.runs].sa = g.Current(tunnel)
			c.runs++
		}
		c.at[c.n] = int32(i)
		c.n++
		c.run[c.runs-1].end = c.n
	}
}

// distinct returns the SAs of the listed packets, without repetitions in a row and nil, valid until the next call.
func (c *classified) distinct() []*ipsec.SA {
	n := 0
	for i := range c.run[:c.runs] {
		if sa := c.run[i].sa; sa != nil && (n == 0 || sa != c.sas[n-1]) {
			c.sas[n] = sa
			n++
		}
	}
	return c.sas[:n]
}

// sealsUnread reports whether a device can seal a classified packet that the host has not read: it is within its frame, as is
// its ESP.
func (s *Stage) sealsUnread(f *batch.Frame, job *Job, sa *ipsec.SA, front, header int) bool {
	const aligned = 2 // see deviceTakes
	at, size := int(f.Addr%umem.FrameSize), int(job.Bytes)
	return f.Addr%4 == aligned && !s.frames.IsLarge(*f) && f.Origin.Marks() == 0 && !s.partialChecksums[f.Origin.Port()] &&
		packet.EthernetLen+size <= int(f.Len) && front <= at && at+packet.EthernetLen-header+sa.ESPLen(size) <= umem.FrameSize
}

// requestClassified requests sequence numbers for the listed packets, and returns their SAs.
func (s *Stage) requestClassified(jobs []Job) []*ipsec.SA {
	c := &s.classified
	if c.n == 0 {
		return nil
	}
	first := 0
	for _, r := range c.run[:c.runs] {
		n := 0
		for _, i := range c.at[first:r.end] {
			if !jobs[i].hasSeqOf(r.sa) {
				n++
			}
		}
		r.sa.Request(s.worker, n)
		s.countFirstSA(r.sa, r.end-first)
		first = r.end
	}
	sas := c.distinct()
	s.countProtected(c.n, sas[0])
	return sas
}

// place is a place in the list of classified packets, and its run.
type place struct{ at, run int }

// sealClassified makes jobs of listed packets, from a place on, up to the packet with index end. It returns the next
// place.
func (s *Stage) sealClassified(in []batch.Frame, out []batch.Result, jobs []Job, p place, end int) place {
	c := &s.classified
	for p.at < c.n && int(c.at[p.at]) < end {
		r := &c.run[p.run]
		most, bytes := 1, uint64(jobs[c.at[p.at]].Bytes)
		reserved := jobs[c.at[p.at]].hasSeqOf(r.sa)
		if !r.sa.Limited() && !reserved {
			for ; p.at+most < r.end && int(c.at[p.at+most]) < end && !jobs[c.at[p.at+most]].hasSeqOf(r.sa); most++ {
				bytes += uint64(jobs[c.at[p.at+most]].Bytes)
			}
		}
		var others ipsec.Reserved
		if reserved {
			others = r.sa.Assign(s.worker, jobs[c.at[p.at]].ReservedSeq)
		}
		seq, n, err := r.sa.NumberUnread(s.worker, most, bytes)
		front, header := r.sa.HeaderLens()
		for k := range most {
			i := int(c.at[p.at+k])
			f, job := &in[i], &jobs[i]
			switch {
			case err != ipsec.OK:
				setDrop(f, &out[i], job, dropFor(err))
				continue
			case k >= n:
				s.sealRead(f, &out[i], job, r.sa)
				continue
			}
			esp := r.sa.ESPLen(int(job.Bytes))
			f.Addr -= uint32(front)
			f.Len = uint16(packet.EthernetLen + front - header + esp)
			f.Origin = f.Origin.With(batch.PolicyDone)
			job.ESP, job.Bytes = uint16(packet.EthernetLen+front-header), uint16(esp)
			job.set(Seal, r.sa, seq+uint64(k))
			job.Unread = true
		}
		if reserved {
			r.sa.Restore(s.worker, others)
		}
		if p.at += most; p.at == r.end {
			p.run++
		}
	}
	return p
}

// sealRead makes a job of a listed packet whose sequence number the device cannot write: the host writes its headers.
func (s *Stage) sealRead(f *batch.Frame, out *batch.Result, job *Job, sa *ipsec.SA) {
	size := int(job.Bytes)
	if p := s.frames.Packet(*f); p[0]>>4 == 4 {
		(*packet.IPv4)(p).DecrementTTL()
	} else {
		(*packet.IPv6)(p).DecrementHopLimit()
	}
	if drop := dropFor(s.sealJob(f, size, sa, job)); drop.Verdict != 0 {
		setDrop(f, out, job, drop)
		return
	}
	f.Origin = f.Origin.With(batch.PolicyDone)
}
