package service

import (
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strconv"

	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/privilege"
	"github.com/warproute/warproute/ipsec/gateway"
)

// handlers returns the handlers of the control socket by path.
func (s *Service) handlers() map[string]socket.Handler {
	return map[string]socket.Handler{
		"/ports":      func(*http.Request) (any, error) { return status.Ports(s.Snapshot()), nil },
		"/interfaces": func(*http.Request) (any, error) { return s.interfaces() },
		"/engine":     func(*http.Request) (any, error) { return status.EngineOf(s.Snapshot()), nil },
		"/lanes":      func(*http.Request) (any, error) { return status.Lanes(s.Snapshot()), nil },
		"/latency":    func(*http.Request) (any, error) { return status.Latencies(s.Snapshot()), nil },
		"/drops":      func(*http.Request) (any, error) { return status.Drops(s.Snapshot()), nil },
		"/sas":        s.sas,
		"/policies":   s.policies,
		"/neighbors":  func(*http.Request) (any, error) { return s.mirror.Neighbors(), nil },
		"/routes":     s.routes,
		"/mirror":     func(*http.Request) (any, error) { return s.mirror.Status(), nil },
		"/verify":     func(*http.Request) (any, error) { return s.mirror.Verify() },
		"/route":      s.lookup,
		"/top":        s.top,

		"/version": func(*http.Request) (any, error) {
			return status.Version{Version: s.version, PID: os.Getpid(), HandingOver: s.handing.Load()}, nil
		},
	}
}

// access says that members of a group may read, and only root and the user of the router may see packets or change it.
func (s *Service) access() (socket.Access, error) {
	group, err := privilege.LookupGroup(s.cfg.Control.Group)
	if err == nil && group < 0 && os.Getegid() != 0 {
		group = os.Getegid()
	}
	return socket.Access{Group: group, Log: s.log, Full: map[string]socket.Handler{
		"/capture":      s.capture,
		"/trace":        s.trace,
		"POST /reload":  s.handleReload,
		"POST /upgrade": s.handleUpgrade,
	}}, err
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

// lookup answers /route?addr=ADDR&vrf=NAME&engine=cpu|gpu. With gpu, the tables on the GPUs must agree.
func (s *Service) lookup(r *http.Request) (any, error) {
	q := r.URL.Query()
	addr, err := netip.ParseAddr(q.Get("addr"))
	if err != nil {
		return nil, err
	}
	addr = addr.WithZone("").Unmap() // ::ffff:192.0.2.1 is how IPv6 sockets write 192.0.2.1
	engine := q.Get("engine")
	switch {
	case engine == "gpu" && s.engine.gpus == nil:
		return nil, s.compareCopies(r.Context(), 0, addr)
	case engine != "" && engine != "cpu" && engine != "gpu":
		return nil, fmt.Errorf("engine %q is neither cpu nor gpu", engine)
	}
	var route mirror.RouteInfo
	var found bool
	var vrf uint16
	if name := q.Get("vrf"); name == "" {
		route, found = s.mirror.Lookup(addr)
	} else if route, vrf, found, err = s.mirror.LookupInVRF(name, addr); err != nil {
		return nil, err
	}
	if engine == "gpu" {
		if err := s.compareCopies(r.Context(), vrf, addr); err != nil {
			return nil, err
		}
	}
	return status.AnswerOf(addr, route, found), nil
}
