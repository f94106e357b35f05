package service

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"strconv"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/hist"
	"github.com/warproute/warproute/ipsec/gateway"
)

// Snapshot is the router as of now. Any goroutine may call it.
func (s *Service) Snapshot() *status.Snapshot {
	snap := &status.Snapshot{Engine: s.engineState(), Stats: s.router.Stats()}
	m := s.mirror.Status()
	snap.RoutesIPv4, snap.RoutesIPv6, snap.Updates = m.RoutesIPv4, m.RoutesIPv6, new(hist.Snapshot)
	s.mirror.Updates(snap.Updates)
	if s.guard != nil {
		state := s.guard.State()
		snap.Guard = &state
	}
	s.withGateway(func(g *gateway.Gateway) { snap.SAs, snap.Traffic = status.SAs(g), g.Traffic() })
	current := make([]string, len(s.ports.Ports)) // before the lock, for which the mirror may wait
	for i := range current {
		current[i] = s.mirror.PortName(i)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	snap.Config = s.config
	snap.Config.Reloads = maps.Clone(s.config.Reloads)
	for i, p := range s.ports.Ports {
		state := status.PortState{
			Name: p.Name, Index: p.Ifindex, Mode: p.Mode.String(), ModeReason: p.ModeReason, Queues: s.queues[p.Name],
			MAC: s.links[i].mac.String(), MTU: s.links[i].mtu, Up: s.links[i].up,
		}
		if current[i] != p.Name {
			state.Interface = current[i]
		}
		if c, err := p.Stats(); err == nil {
			state.XDP, state.Rings = xdpOf(c), ringsOf(c)
		} else {
			s.log.Error("read the port's counters", "port", p.Name, "error", err)
		}
		snap.Ports = append(snap.Ports, state)
	}
	return snap
}

func xdpOf(c afxdp.PortStats) status.XDP {
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

func ringsOf(c afxdp.PortStats) status.Rings {
	return status.Rings{
		RxDropped: c.RxDropped, RxRingFull: c.RxRingFull, FillRingEmpty: c.RxFillEmpty,
		TxRingEmpty: c.TxEmpty, RxInvalid: c.RxInvalid, TxInvalid: c.TxInvalid,
	}
}

// handlers are the paths of the control socket.
func (s *Service) handlers() map[string]socket.Handler {
	return map[string]socket.Handler{
		"/ports":     func(*http.Request) (any, error) { return status.Ports(s.Snapshot()), nil },
		"/engine":    func(*http.Request) (any, error) { return status.EngineOf(s.Snapshot()), nil },
		"/latency":   func(*http.Request) (any, error) { return status.Latencies(s.Snapshot()), nil },
		"/drops":     func(*http.Request) (any, error) { return status.Drops(s.Snapshot()), nil },
		"/sas":       s.sas,
		"/policies":  s.policies,
		"/neighbors": func(*http.Request) (any, error) { return s.mirror.Neighbors(), nil },
		"/routes":    s.routes,
		"/mirror":    func(*http.Request) (any, error) { return s.mirror.Status(), nil },
		"/verify":    func(*http.Request) (any, error) { return s.mirror.Verify() },
		"/route":     s.lookup,
		"/capture":   s.capture,
		"/trace":     s.trace,
		"/top":       s.top,

		"POST /reload": s.reloadFor,
	}
}

func (s *Service) sas(*http.Request) (any, error) {
	list := []status.SA{}
	s.withGateway(func(g *gateway.Gateway) { list = status.SAs(g) })
	return list, nil
}

func (s *Service) policies(*http.Request) (any, error) {
	list := []status.Policy{}
	s.withGateway(func(g *gateway.Gateway) { list = status.Policies(g) })
	return list, nil
}

// routes answers /routes?family=4|6&limit=N.
func (s *Service) routes(r *http.Request) (any, error) {
	q := r.URL.Query()
	family, limit := q.Get("family"), -1
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("limit %q is not a number of routes", text)
		}
		limit = n
	}
	if family != "" && family != "4" && family != "6" {
		return nil, fmt.Errorf("family %q is neither 4 nor 6", family)
	}
	return socket.Stream(func(yield func(any) bool) {
		for _, route := range s.mirror.Routes() {
			if family != "" && (family == "6") != route.Prefix.Addr().Is6() {
				continue
			}
			if limit == 0 || !yield(route) {
				return
			}
			limit--
		}
	}), nil
}

// lookup answers /route?addr=ADDR&engine=cpu|gpu. For gpu the copies of the tables on the GPUs
// have to have the same.
func (s *Service) lookup(r *http.Request) (any, error) {
	q := r.URL.Query()
	addr, err := netip.ParseAddr(q.Get("addr"))
	if err != nil {
		return nil, err
	}
	addr = addr.WithZone("").Unmap() // ::ffff:192.0.2.1 is how IPv6 sockets write 192.0.2.1
	switch engine := q.Get("engine"); engine {
	case "", "cpu":
	case "gpu":
		if err := s.compareCopies(r.Context(), addr); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("engine %q is neither cpu nor gpu", engine)
	}
	route, found := s.mirror.Lookup(addr)
	return status.AnswerOf(addr, route, found), nil
}
