package service

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"

	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/ipsec/gateway"
)

// handlers returns the handlers of the control socket by path.
func (s *Service) handlers() map[string]socket.Handler {
	return map[string]socket.Handler{
		"/ports":     func(*http.Request) (any, error) { return status.Ports(s.Snapshot()), nil },
		"/engine":    func(*http.Request) (any, error) { return status.EngineOf(s.Snapshot()), nil },
		"/lanes":     func(*http.Request) (any, error) { return status.Lanes(s.Snapshot()), nil },
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

		"POST /reload": s.handleReload,
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

// lookup answers /route?addr=ADDR&engine=cpu|gpu. With gpu, the tables on the GPUs must agree.
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
