package seqload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/testutil"
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

const srcPort = 1024 // of flow 0

// template returns packet 0 of a flow. Frames of both families have the same length.
func template(number int, flow Flow, srcMAC, dstMAC net.HardwareAddr) []byte {
	udp, headers := testutil.UDP4, 42
	if flow.Dst.Is6() {
		udp, headers = testutil.UDP6, 62
	}
	payload := make([]byte, FrameLen-headers)
	binary.BigEndian.PutUint32(payload, uint32(number))
	f := udp(flow.Src.String(), flow.Dst.String(), uint16(srcPort+number), udpPort, payload...)
	copy(f, dstMAC)
	copy(f[6:], srcMAC)
	return f
}
