package esp

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/inspect"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

// Received ESP in its common form takes a short way to the device: the host finds the SA, and the device
// checks all that only needs the packet. The other packets take the way of the CPU engine to a job.

// commonESP is the SPI of a frame's ESP and its offset in the IP packet; SPI 0 for other packets.
type commonESP struct {
	spi uint32
	at  int32
}

// findCommon finds the common ESP of a block, among packets that no device has classified, and prefetches its SAs, so that their cache misses overlap.
func (s *Stage) findCommon(in []batch.Frame, jobs []Job, common *[block]commonESP) {
	var spis [block]uint32
	n, last := 0, uint32(0)
	for i, f := range in {
		if f.Len <= packet.EthernetLen || jobs[i].Classified {
			continue
		}
		b := s.frames.Bytes(f)
		spi, at := ipsec.InboundCommon(b[packet.EthernetLen:])
		want := packet.EtherTypeIPv4
		if at >= packet.IPv6Len {
			want = packet.EtherTypeIPv6
		}
		if spi == 0 || (*packet.Ethernet)(b).Type() != want {
			continue
		}
		common[i] = commonESP{spi, int32(at)}
		if spi != last {
			spis[n], last = spi, spi
			n++
		}
	}
	s.gateway.PrefetchInbound(spis[:n])
}

// openCommon makes a job of a packet with common ESP, and returns its SA. It returns nil, and leaves the
// packet to classify, if the device cannot have it, or there is any reason to drop it.
func (s *Stage) openCommon(f *batch.Frame, c commonESP, job *Job) *ipsec.SA {
	p := s.frames.Packet(*f)
	ip, next, tos := packet.IPv4Len, uint16(9), p[1]
	if p[0]>>4 == 4 {
		if inspect.IPv4(p) != inspect.OK {
			return nil
		}
		p = p[:(*packet.IPv4)(p).TotalLen()]
	} else {
		if inspect.IPv6(p, &s.l4[s.n]) != inspect.OK {
			return nil
		}
		p = p[:packet.IPv6Len+(*packet.IPv6)(p).PayloadLen()]
		ip, next, tos = packet.IPv6Len, 6, p[0]<<4|p[1]>>4
	}
	sa := s.gateway.Inbound(c.spi, ipsec.Destination(p))
	if sa == nil || !s.deviceTakes(job, f, sa) || s.HostDecrypts(sa) {
		return nil
	}
	seq, end, ok := sa.FindCommon(p, int(c.at))
	if !ok {
		return nil
	}
	job.ESP, job.Bytes, job.Header, job.NextAt, job.TOS = uint16(packet.EthernetLen+c.at), uint16(end)-uint16(c.at), uint16(ip), next, tos
	job.set(Open, sa, seq)
	return sa
}
