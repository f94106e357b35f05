package service

import (
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/dataplane/lane"
	"github.com/warproute/warproute/packet"
)

// compileLanes returns the lanes of the workers, nil for one lane.
func (s *Service) compileLanes() (*lane.Lanes, error) {
	configured := s.cfg.ActiveLanes()
	if len(configured) == 0 {
		return nil, nil
	}
	all := make([]lane.Lane, len(configured))
	for i, l := range configured {
		all[i] = lane.Lane{Name: l.Name, Deadline: l.Deadline, Share: l.Share}
		for _, m := range l.Match {
			all[i].Match = append(all[i].Match, laneMatch(m))
		}
	}
	if s.ipsec == nil {
		return lane.Compile(all, nil)
	}
	lanes, err := lane.Compile(all, s.ipsec.gateway)
	if err != nil {
		return nil, err
	}
	lanes.RouteBy(s.fib)
	return lanes, nil
}

func laneMatch(m config.LaneMatch) lane.Match {
	of := lane.Match{
		Protocol: packet.Protocol(m.Protocol), AnyProtocol: m.Protocol == 0, Plain: m.Plain,
		SrcPorts: lane.Range{First: m.SrcPorts.First, Last: m.SrcPorts.Last}, DstPorts: lane.Range{First: m.DstPorts.First, Last: m.DstPorts.Last},
	}
	for _, d := range m.DSCP {
		of.DSCP |= 1 << d
	}
	return of
}
