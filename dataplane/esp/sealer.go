package esp

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

// A device with lent sequence numbers (ipsec.Lender) seals packets in one pass, of many SAs. The host has not read them, and
// learns the SA of each by the index of its keys.

// MayLend reports whether the numbers of an SA can be lent to a device with keys below a number.
func (s *Stage) MayLend(sa *ipsec.SA, keys uint32) bool {
	return sa.KeyIndex() < keys && sa.Mode() == ipsec.Tunnel && !sa.Limited() && s.Leaves(sa)
}

// Leaves reports whether packets leave by an SA: it is the current one of its tunnel.
func (s *Stage) Leaves(sa *ipsec.SA) bool { return s.Current(sa.Tunnel()) == sa }

// TunnelLimit returns an exclusive upper bound of the tunnel numbers.
func (s *Stage) TunnelLimit() uint32 { return s.gateway.TunnelLimit() }

// Current returns the current outbound SA of a tunnel, nil without one.
func (s *Stage) Current(tunnel uint32) *ipsec.SA { return s.gateway.Current(tunnel) }

// Longest returns the length in bytes of the longest packet that an outbound SA seals without fragmentation.
func (s *Stage) Longest(sa *ipsec.SA) int { return max(0, sa.InnerMTU(s.mtuOf(sa), nil)) }

// Sealer is an SA by which a device has sealed a packet.
type Sealer struct {
	SA     *ipsec.SA // nil: not looked up yet
	counts *ipsec.Counts
	layout ipsec.TunnelLayout
	_      [32 - 20]byte // so that no entry is in two cache lines
}

// BeginSealed begins a chunk that a device has sealed, but for some packets, which are the host's. Only with these there are
// jobs. keys is the size of the device's key table.
func (s *Stage) BeginSealed(jobs []Job, hostPackets int, keys uint32) {
	s.startCounts()
	s.sealers.begin(s.gateway, keys)
	if hostPackets > 0 {
		for i := range jobs {
			jobs[i].reset()
		}
	}
}

// AcceptSealed finishes the packets of a chunk that a device has sealed, from the first one on, as long as the device forwards
// them to one of a number of ports, their results are those of their SAs' ESP, and Sealer has returned these SAs before. It takes
// up to 64 packets, and returns their number, and the SA of the last one. The next packet needs the steps below.
func (s *Stage) AcceptSealed(in []batch.Frame, out, results []batch.Result, reports []SAReport, ports int) (n int, by *Sealer) {
	size := min(len(results), block)
	in, out, results, reports = in[:size], out[:size], results[:size], reports[:size]
	counts, sizes, first := s.counts[:size], s.sizes[:size], 0
	for i, r := range results {
		x := s.sealers.at(reports[i].KeyIndex())
		if uint(r.Verdict-batch.Forward(0)) >= uint(ports) || x == nil || x.SA == nil {
			break
		}
		bytes := reports[i].Size()
		f, ok := sealedFrame(x.layout, in[i], bytes)
		if bytes < packet.IPv4Len || packet.EthernetLen+bytes > int(in[i].Len) || !ok || r.Addr() != f.Addr || r.Len() != f.Len {
			break
		}
		in[i] = f
		out[i] = r
		counts[i], sizes[i] = x.counts, uint64(bytes)
		if s.firstSA == nil {
			s.firstSA = x.SA
		}
		if x.SA == s.firstSA {
			first++
		}
		if reports[i].SeqsLow() {
			s.low = x.SA
		}
		n, by = i+1, x
	}
	ipsec.CountEach(counts[:n], sizes[:n])
	s.firstCount += first
	s.sealed += n
	return n, by
}

// Sealer returns the outbound SA with keys at an index, or nil.
func (s *Stage) Sealer(key uint32) *Sealer {
	x := s.sealers.at(key)
	if x == nil {
		return nil
	}
	if x.SA == nil {
		sa := s.gateway.ByKey(key)
		if sa == nil || sa.Direction() != ipsec.Out {
			return nil
		}
		x = s.sealers.use(key, Sealer{SA: sa, counts: sa.Counts(s.worker), layout: sa.TunnelLayout()})
	}
	return x
}

// ReserveSeq records that a device has taken a sequence number of an SA for a packet that only the host can seal. It is not ok if
// the device did not have that number.
func (s *Stage) ReserveSeq(x *Sealer, job *Job, seq uint64) (ok bool) {
	job.ReservedSA, job.ReservedSeq = x.SA, seq
	return x.SA.WasLent(seq)
}

// SealedBy is Sealed for a packet of an SA that Sealer has returned.
func (s *Stage) SealedBy(x *Sealer, f *batch.Frame, size int) bool { return sealed(x.layout, f, size) }

// HasESPOf reports whether the frame has ESP with the SPI of the SA.
func (s *Stage) HasESPOf(x *Sealer, f batch.Frame) bool { return s.hasESP(x.SA, x.layout, f) }

// CountSealedBy counts a packet that a device has sealed.
func (s *Stage) CountSealedBy(x *Sealer, report SAReport) {
	x.counts.Add(1, uint64(report.Size()))
	s.countFirstSA(x.SA, 1)
	s.sealed++
	if report.SeqsLow() {
		s.low = x.SA
	}
}

// EndSealed ends a chunk that a device has sealed. It returns the SA of its last packet of which the device says that it has few
// numbers left, nil for none.
func (s *Stage) EndSealed() (low *ipsec.SA) {
	if s.sealed > 0 {
		s.countProtected(s.sealed, s.firstSA) // of the first packet
	}
	low, s.low, s.sealed = s.low, nil, 0
	return low
}
