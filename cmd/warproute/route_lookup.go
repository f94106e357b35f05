package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"

	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/control/routefile"
	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/cli"
)

// resolver looks up addresses. The answers are in the order of the addresses.
type resolver struct {
	answer func([]netip.Addr) ([]status.Answer, error)
	close  func() error
}

// openLookup returns a resolver for the router at a socket or, if file is set, for a file of routes.
func openLookup(ctx context.Context, socketPath, file, vrf, engine string) (*resolver, error) {
	if engine != "cpu" && engine != "gpu" {
		return nil, cli.UsageError(fmt.Errorf("--engine %s: write cpu or gpu", engine))
	}
	if file != "" && vrf != "" {
		return nil, cli.UsageError(errors.New("--vrf is of the running router, --routes of a file: write one of them"))
	}
	if file == "" {
		query := func(addrs []netip.Addr) ([]status.Answer, error) {
			return queryRouter(ctx, socketPath, vrf, engine, addrs)
		}
		return &resolver{query, func() error { return nil }}, nil
	}
	routes, err := routefile.Open(file)
	if err != nil {
		return nil, cli.UsageError(err)
	}
	table, err := routefile.NewTable(routes)
	if err != nil {
		return nil, err
	}
	if engine == "gpu" {
		return onGPU("", table)
	}
	return onCPU(table), nil
}

func onCPU(table *routefile.Table) *resolver {
	walk := func(addrs []netip.Addr) ([]status.Answer, error) {
		answers := make([]status.Answer, len(addrs))
		for i, addr := range addrs {
			route, found := table.Lookup(addr)
			answers[i] = answerOf(addr, route, found)
		}
		return answers, nil
	}
	return &resolver{walk, func() error { return nil }}
}

func queryRouter(ctx context.Context, socketPath, vrf, engine string, addrs []netip.Addr) ([]status.Answer, error) {
	answers := make([]status.Answer, len(addrs))
	for i, addr := range addrs {
		q := url.Values{"addr": {addr.String()}, "engine": {engine}}
		if vrf != "" {
			q.Set("vrf", vrf)
		}
		path := "/route?" + q.Encode()
		if err := socket.Get(ctx, socketPath, path, &answers[i]); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// answerOf returns the answer for a route of a file, as a router would give it.
func answerOf(addr netip.Addr, route routefile.Route, found bool) status.Answer {
	a := status.Answer{Address: addr}
	if !found {
		return a
	}
	a.Found, a.Prefix, a.Action, a.MTU = true, route.Prefix, route.Type, route.MTU
	switch {
	case route.Type == "multicast" && route.Prefix.Addr().Is4():
		a.Action = status.ActionOf("", mirror.MulticastType)
	case route.Type == "unicast", route.Type == "multicast":
		a.Action = "forward"
	}
	usable := len(route.Paths) == 0
	for _, p := range route.Paths {
		path := status.Path{Via: p.Via, Port: p.Dev, Weight: p.Weight, Dead: p.Dead}
		if p.Encap {
			path.Unsupported = mirror.Encap
		}
		usable = usable || !p.Encap
		a.Paths = append(a.Paths, path)
	}
	if !usable {
		a.Action = status.ActionOf("", mirror.Encap)
	}
	return a
}
