package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/control/routefile"
	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
)

func newRouteCommand() *cobra.Command {
	c := group(&cobra.Command{Use: "route lookup", Short: "Look addresses up"})
	c.AddCommand(newLookupCommand())
	return c
}

func newLookupCommand() *cobra.Command {
	a := new(asking)
	var file, engine string
	c := &cobra.Command{
		Use:   "lookup [ADDR...]",
		Short: "Tell which prefix, next hop and port an address has",
		Long: `Tell which prefix, next hop and port an address has: in the running router, or
with --routes in a file of lines as ` + "`ip route` and `ip -6 route`" + ` print them, or of
bare prefixes; gzip may have packed it, and "-" is standard input. Without an
address, addresses are read from standard input, separated by white space.`,
		RunE: func(c *cobra.Command, args []string) error {
			addrs, err := parseAddrs(args)
			if len(args) == 0 {
				addrs, err = readAddrs(c.InOrStdin(), file)
			}
			if err != nil {
				return usageError(err)
			}
			switch engine {
			case "", "cpu":
			case "gpu":
				return errors.New("--engine gpu: a GPU looks up for the packets of a router, not for a command; leave --engine out (bench lookup --engine gpu measures one)")
			default:
				return usageError(fmt.Errorf("--engine %s: write cpu or gpu", engine))
			}
			answers, err := lookUp(c.Context(), a.socket, file, addrs)
			if err != nil {
				return err
			}
			if a.json {
				enc := json.NewEncoder(c.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(answers)
			}
			return status.WriteAnswers(c.OutOrStdout(), answers)
		},
	}
	a.addFlags(c)
	c.Flags().StringVar(&file, "routes", "", "look in `FILE` instead of the running router")
	c.Flags().StringVar(&engine, "engine", "", "`ENGINE` that looks up: cpu (a gpu looks up for packets alone)")
	return c
}

func parseAddrs(args []string) ([]netip.Addr, error) {
	addrs := make([]netip.Addr, len(args))
	for i, s := range args {
		var err error
		if addrs[i], err = netip.ParseAddr(s); err != nil || addrs[i].Zone() != "" {
			return nil, fmt.Errorf("%q is not an IP address; write one such as 192.0.2.1 or 2001:db8::1", s)
		}
	}
	return addrs, nil
}

// readAddrs reads addresses from standard input, unless the routes come from there.
func readAddrs(r io.Reader, routes string) (addrs []netip.Addr, err error) {
	if routes == "-" {
		return nil, errors.New("standard input holds the routes: write the addresses as arguments")
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20) // a line may hold any number of addresses
	for n := 1; lines.Scan(); n++ {
		some, err := parseAddrs(strings.Fields(lines.Text()))
		if err != nil {
			return nil, fmt.Errorf("standard input:%d: %w", n, err)
		}
		addrs = append(addrs, some...)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read addresses from standard input: %w", err)
	}
	if len(addrs) == 0 {
		return nil, errors.New("no address: write some as arguments or to standard input, such as 192.0.2.1 or 2001:db8::1")
	}
	return addrs, nil
}

// lookUp answers from a file or, if none is named, from the router at a socket.
func lookUp(ctx context.Context, socketPath, file string, addrs []netip.Addr) ([]status.Answer, error) {
	if file != "" {
		return lookUpFile(file, addrs)
	}
	answers := make([]status.Answer, len(addrs))
	for i, addr := range addrs {
		path := "/route?" + url.Values{"addr": {addr.String()}}.Encode()
		if err := socket.Get(ctx, socketPath, path, &answers[i]); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

func lookUpFile(file string, addrs []netip.Addr) ([]status.Answer, error) {
	routes, err := routefile.Open(file)
	if err != nil {
		return nil, usageError(err)
	}
	table, err := routefile.NewTable(routes)
	if err != nil {
		return nil, err
	}
	answers := make([]status.Answer, len(addrs))
	for i, addr := range addrs {
		answers[i] = status.Answer{Address: addr}
		route, found := table.Lookup(addr)
		if !found {
			continue
		}
		a := &answers[i]
		a.Found, a.Prefix, a.Action, a.MTU = true, route.Prefix, route.Type, route.MTU
		if route.Type == "unicast" {
			a.Action = "forward"
		}
		for _, p := range route.Paths {
			a.Paths = append(a.Paths, status.Path{Via: p.Via, Port: p.Dev, Weight: p.Weight, Dead: p.Dead})
		}
	}
	return answers, nil
}
