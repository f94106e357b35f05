package service

import (
	"maps"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/hist"
	"github.com/warproute/warproute/ipsec/gateway"
)

// Snapshot returns the current state and counters. Any goroutine may call it.
func (s *Service) Snapshot() *status.Snapshot {
	snap := &status.Snapshot{Engine: s.engine.current(), Stats: s.router.Stats()}
	m := s.mirror.Status()
	snap.VRFs = m.VRFs
	snap.RoutesIPv4, snap.RoutesIPv6, snap.Updates = m.RoutesIPv4, m.RoutesIPv6, new(hist.Snapshot)
	s.mirror.Updates(snap.Updates)
	if s.guard != nil {
		state := s.guard.State()
		snap.Guard = &state
	}
	s.withGateway(func(g *gateway.Gateway) { snap.SAs, snap.Traffic = status.SAs(g), g.Traffic() })
	current := make([]string, len(s.ports.configured)) // before the lock, which the mirror may wait for
	for i, p := range s.ports.all() {
		if p != nil {
			current[i] = s.mirror.PortName(i)
		}
	}
	snap.Config = s.reloads.current()
	lost := s.links.read(s.log)
	s.ports.mu.Lock()
	defer s.ports.mu.Unlock()
	byNumber, at := snap.Stats.Ports, map[int]int{}
	snap.Stats.Ports = nil
	for i, p := range s.ports.all() {
		if p == nil {
			snap.Stats.Removed.Add(&byNumber[i])
			continue
		}
		at[i] = len(snap.Ports)
		snap.Stats.Ports = append(snap.Stats.Ports, byNumber[i])
		state := status.PortState{
			Name: p.Name, Index: p.Ifindex, Mode: p.Mode.String(), ModeReason: p.ModeReason, Queues: s.ports.sockets[p.Name],
			MAC: s.ports.links[i].mac.String(), MTU: s.ports.links[i].mtu, Up: s.ports.links[i].up,
		}
		if l, ok := lost[current[i]]; ok {
			state.Link = &status.Link{RxDropped: l.RxDropped, RxErrors: l.RxErrors, TxDropped: l.TxDropped, TxErrors: l.TxErrors}
		}
		state.Bond = s.bondOf(i)
		if s.ports.hasVLANs {
			state.LostTags, _ = p.LostTags()
		}
		if current[i] != p.Name && !s.ports.configured[i].matched {
			state.Interface = current[i]
		}
		if c, err := p.Stats(); err == nil {
			state.XDP, state.Rings = xdpStatus(c), ringStatus(c)
		} else {
			s.log.Error("read port counters", "port", p.Name, "err", err)
		}
		snap.Ports = append(snap.Ports, state)
	}
	for i := len(s.ports.all()); i < len(byNumber); i++ {
		snap.Stats.Removed.Add(&byNumber[i])
	}
	s.addLogicalPorts(snap, at)
	s.ports.removed.addTo(snap)
	return snap
}

// current returns the time of the configuration and the counts of reloads.
func (r *reloads) current() status.ConfigState {
	r.mu.Lock()
	defer r.mu.Unlock()
	state := r.state
	state.Reloads = maps.Clone(state.Reloads)
	return state
}

func xdpStatus(c afxdp.PortStats) status.XDP {
	x := status.XDP{ToSocket: c.Frames[afxdp.ToSocket], NoSocket: c.Frames[afxdp.NoSocket], Refused: c.Refused, Transit: map[string]uint64{}, ToLinux: map[string]uint64{}}
	for d := range afxdp.Decision(afxdp.NumDecisions) {
		switch {
		case d.Linux():
			x.ToLinux[d.String()] = c.Frames[d]
		case d.Transit():
			x.Transit[d.String()] = c.Frames[d]
		}
	}
	return x
}

func ringStatus(c afxdp.PortStats) status.Rings {
	return status.Rings{
		RxDropped: c.RxDropped, RxRingFull: c.RxRingFull, FillRingEmpty: c.RxFillEmpty,
		TxRingEmpty: c.TxEmpty, RxInvalid: c.RxInvalid, TxInvalid: c.TxInvalid,
	}
}
