package numbered

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/warproute/warproute/internal/lab"
)

// Source sends packets of its flows by turns, each flow's numbered from 0.
type Source struct {
	ball
	flows int
}

// Flow is the addresses of a flow, of one family.
type Flow struct{ Src, Dst netip.Addr }

// NewSource makes a source that sends by a link, to the station next, and works on
// a core. Its rate is 0. The namespace gets two more links.
func NewSource(from lab.End, next net.HardwareAddr, core int, flows ...Flow) (*Source, error) {
	s := &Source{flows: len(flows)}
	if err := s.start(from, next, core, flows); err != nil {
		return nil, errors.Join(fmt.Errorf("send numbered packets at %s: %w", from.Name, err), s.Close())
	}
	return s, nil
}

func (s *Source) start(from lab.End, next net.HardwareAddr, core int, flows []Flow) error {
	if len(flows) < 1 || len(flows) > MaxFlows {
		return fmt.Errorf("%d flows: take 1 to %d", len(flows), MaxFlows)
	}
	out, err := from.Namespace.Link(from.Name)
	if err != nil {
		return err
	}
	var frames [MaxFlows][room]byte
	for i, f := range flows {
		copy(frames[i][2:], template(i, f, out.Attrs().HardwareAddr, next))
	}
	return s.ball.start(from.Namespace, core, sendTick, map[string]any{
		"templates": frames, "flows": uint32(len(flows)), "out": uint32(out.Attrs().Index),
	})
}

// Rate has so many packets a second sent from now on, of all flows together; 0: none.
// What is due while the core has no time for softirqs is sent late, up to 128
// packets at a time, and more never.
func (s *Source) Rate(packets int) error { return s.objects.Rate.Set(uint64(packets)) }

// Sent is how many packets of each flow were sent so far, or not taken by the link.
func (s *Source) Sent() ([]uint32, error) {
	var sent [MaxFlows]uint32
	if err := s.objects.Sent.Get(&sent); err != nil {
		return nil, fmt.Errorf("read how many packets were sent: %w", err)
	}
	return slices.Clone(sent[:s.flows]), nil
}

// Restart has the flows numbered from 0 again. The rate must be 0.
func (s *Source) Restart() error { return s.objects.Sent.Set([MaxFlows]uint32{}) }
