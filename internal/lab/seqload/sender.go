package seqload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/packet"
)

// Sender sends packets of its flows round-robin. Each flow has sequence numbers from 0.
type Sender struct {
	ticker
	flows int
}

// Flow is the addresses of a flow, of one family.
type Flow struct{ Src, Dst netip.Addr }

// NewSender returns a sender with rate 0, which sends on a link to a station and runs on a core. It
// adds two links to the namespace.
func NewSender(from lab.End, station net.HardwareAddr, core int, flows ...Flow) (*Sender, error) {
	s := &Sender{flows: len(flows)}
	if err := s.start(from, station, core, flows); err != nil {
		return nil, errors.Join(fmt.Errorf("send at %s: %w", from.Name, err), s.Close())
	}
	return s, nil
}

func (s *Sender) start(from lab.End, station net.HardwareAddr, core int, flows []Flow) error {
	if len(flows) < 1 || len(flows) > MaxFlows {
		return fmt.Errorf("%d flows: 1 to %d are possible", len(flows), MaxFlows)
	}
	out, err := from.Namespace.Link(from.Name)
	if err != nil {
		return err
	}
	var frames [MaxFlows][frameRoom]byte
	for i, f := range flows {
		copy(frames[i][2:], template(i, f, out.Attrs().HardwareAddr, station))
	}
	return s.ticker.start(from.Namespace, core, sendPeriod, map[string]any{
		"templates": frames, "flows": uint32(len(flows)), "out": uint32(out.Attrs().Index),
	})
}

// Rate sets the packets per second of all flows together. After a stall up to 128 packets are sent
// late; the rest of those due is never sent.
func (s *Sender) Rate(packets int) error { return s.objects.Rate.Set(uint64(packets)) }

// Sent returns the number of packets sent per flow, with those that the link refused.
func (s *Sender) Sent() ([]uint32, error) {
	var sent [MaxFlows]uint32
	if err := s.objects.Sent.Get(&sent); err != nil {
		return nil, fmt.Errorf("read number of sent packets: %w", err)
	}
	return slices.Clone(sent[:s.flows]), nil
}

// Reset restarts the sequence numbers at 0. The rate must be 0.
func (s *Sender) Reset() error { return s.objects.Sent.Set([MaxFlows]uint32{}) }

const (
	udpLen  = 8
	ttl     = 64
	srcPort = 1024 // of flow 0
)

// template returns packet 0 of a flow. Frames of both families have the same length.
func template(number int, flow Flow, srcMAC, dstMAC net.HardwareAddr) []byte {
	f := make([]byte, FrameLen)
	copy(f, dstMAC)
	copy(f[6:], srcMAC)
	ip, udp := f[packet.EthernetLen:], f[packet.EthernetLen+packet.IPv6Len:]
	var addrs []byte
	if flow.Dst.Is4() {
		(*packet.Ethernet)(f).SetType(packet.EtherTypeIPv4)
		udp = ip[packet.IPv4Len:]
		ip[0], ip[8], ip[9] = 0x45, ttl, byte(packet.UDP)
		binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
		addrs = ip[12:20]
	} else {
		(*packet.Ethernet)(f).SetType(packet.EtherTypeIPv6)
		ip[0], ip[6], ip[7] = 0x60, byte(packet.UDP), ttl
		binary.BigEndian.PutUint16(ip[4:], uint16(len(udp)))
		addrs = ip[8:40]
	}
	copy(addrs, flow.Src.AsSlice())
	copy(addrs[len(addrs)/2:], flow.Dst.AsSlice())
	if flow.Dst.Is4() {
		binary.BigEndian.PutUint16(ip[10:], packet.Checksum(ip[:packet.IPv4Len]))
	}
	binary.BigEndian.PutUint16(udp, uint16(srcPort+number))
	binary.BigEndian.PutUint16(udp[2:], udpPort)
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	binary.BigEndian.PutUint32(udp[udpLen:], uint32(number))
	pseudo := append([]byte{0, byte(packet.UDP), byte(len(udp) >> 8), byte(len(udp))}, addrs...)
	binary.BigEndian.PutUint16(udp[6:], packet.Checksum(append(pseudo, udp...)))
	return f
}
