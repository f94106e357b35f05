package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
)

// asking is what every command that asks the running router has.
type asking struct {
	socket string
	json   bool
}

func (a *asking) addFlags(c *cobra.Command) {
	c.PersistentFlags().StringVar(&a.socket, "socket", config.Default().Control.Socket, "the router's control `SOCKET`")
	c.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON")
}

func newShowCommand() *cobra.Command {
	a := new(asking)
	c := group(&cobra.Command{
		Use:   "show ports|routes|neighbors|engine|latency|drops|sas|policies",
		Short: "Show what a running router does",
	})
	a.addFlags(c)
	c.AddCommand(
		newView(a, "ports", "Ports: XDP mode, counts, what went to Linux", status.WritePorts),
		newRoutesView(a),
		newView(a, "neighbors", "Next hops and their link addresses", status.WriteNeighbors),
		newView(a, "engine", "What decides on packets, and why; workers and batches", status.WriteEngine),
		newView(a, "latency", "How long chunks of packets took, stage by stage", status.WriteLatencies),
		newView(a, "sas", "Security associations of IPsec and their counts", status.WriteSAs),
		newView(a, "policies", "Policies of IPsec; the first that matches a packet decides", status.WritePolicies),
		newView(a, "drops", "Packets that were not forwarded, and why", status.WriteDrops),
	)
	return c
}

// newView makes the command that prints one answer of the router's.
func newView[T any](a *asking, name, short string, write func(io.Writer, T) error) *cobra.Command {
	return &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			out := c.OutOrStdout()
			if a.json {
				return printJSON(c.Context(), out, a.socket, "/"+name)
			}
			var answer T
			if err := socket.Get(c.Context(), a.socket, "/"+name, &answer); err != nil {
				return err
			}
			return write(out, answer)
		},
	}
}

// printJSON prints an answer as the router gave it, keys that this binary does
// not know included.
func printJSON(ctx context.Context, w io.Writer, socketPath, path string) error {
	var raw json.RawMessage
	if err := socket.Get(ctx, socketPath, path, &raw); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return fmt.Errorf("read the router's answer about %s: %w", path, err)
	}
	b.WriteByte('\n')
	_, err := b.WriteTo(w)
	return err
}

// newRoutesView prints routes as they come: there may be a million.
func newRoutesView(a *asking) *cobra.Command {
	var family string
	var limit int
	var summary, verify bool
	c := &cobra.Command{
		Use:   "routes",
		Short: "Routes in the forwarding base",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case summary && verify:
				return wrongUsage(c, errors.New("--summary and --verify are each instead of the routes: give one"))
			case (summary || verify) && (family != "" || limit != 0):
				return wrongUsage(c, errors.New("--family and --limit choose routes to list, which --summary and --verify do not: leave them out"))
			case limit < 0:
				return usageError(fmt.Errorf("--limit %d: it is a number of routes, or 0 for all", limit))
			case summary:
				return newView(a, "mirror", "", status.WriteMirror).RunE(c, nil)
			case verify:
				return verifyRoutes(c.Context(), c.OutOrStdout(), a)
			}
			query := url.Values{}
			switch family {
			case "4", "6":
				query.Set("family", family)
			case "":
			default:
				return usageError(fmt.Errorf("--family %s: write 4 or 6", family))
			}
			if limit > 0 {
				query.Set("limit", strconv.Itoa(limit))
			}
			return printRoutes(c.Context(), c.OutOrStdout(), a, "/routes?"+query.Encode())
		},
	}
	c.Flags().StringVar(&family, "family", "", "only those of `FAMILY` 4 or 6")
	c.Flags().IntVar(&limit, "limit", 0, "at most `N` routes; 0: all")
	c.Flags().BoolVar(&summary, "summary", false, "how many there are instead, and how Linux's are followed")
	c.Flags().BoolVar(&verify, "verify", false, "compare what the engines read with Linux's routes and neighbours instead, and exit with 1 if it differs")
	return c
}
