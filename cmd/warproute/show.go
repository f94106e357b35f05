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
	"github.com/warproute/warproute/internal/cli"
)

// queryFlags are the flags of commands that query the running router.
type queryFlags struct {
	socket string
	json   bool
}

func (q *queryFlags) addFlags(c *cobra.Command) {
	c.PersistentFlags().StringVar(&q.socket, "socket", config.Default().Control.Socket, "`PATH` of the router's control socket")
	c.PersistentFlags().BoolVar(&q.json, "json", false, "print JSON")
}

func newShowCommand() *cobra.Command {
	q := new(queryFlags)
	c := cli.Group(&cobra.Command{
		Use:   "show ports|interfaces|routes|neighbors|engine|latency|lanes|drops|sas|policies",
		Short: "Show ports, routes, drops and other state",
	})
	q.addFlags(c)
	c.AddCommand(
		newPortsView(q),
		newView(q, "interfaces", "Show interfaces: which are ports, and why", status.WriteInterfaces),
		newRoutesView(q),
		newView(q, "neighbors", "Show neighbors and their MAC addresses", status.WriteNeighbors),
		newView(q, "engine", "Show the engine and why it was chosen, workers and batches", status.WriteEngine),
		newView(q, "latency", "Show latencies of chunks per pipeline stage", status.WriteLatencies),
		newView(q, "lanes", "Show lanes: packets, latencies and missed deadlines", status.WriteLanes),
		newView(q, "sas", "Show IPsec security associations and their counters", status.WriteSAs),
		newView(q, "policies", "Show IPsec policies; the first match applies", status.WritePolicies),
		newView(q, "drops", "Show dropped packets by reason", status.WriteDrops),
	)
	return c
}

// newPortsView returns the command that prints ports, and why interfaces that match are not ports.
func newPortsView(q *queryFlags) *cobra.Command {
	c := newView(q, "ports", "Show ports: XDP mode, packet counts, packets passed to Linux", status.WritePorts)
	ports := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := ports(c, args); err != nil || q.json {
			return err
		}
		var all []status.Interface
		if err := socket.Get(c.Context(), q.socket, "/interfaces", &all); err != nil {
			return nil // a router of an earlier version does not know it
		}
		return status.WriteUntaken(c.OutOrStdout(), all)
	}
	return c
}

// newView returns a command that prints one resource of the router.
func newView[T any](q *queryFlags, name, short string, write func(io.Writer, T) error) *cobra.Command {
	return &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			out := c.OutOrStdout()
			if q.json {
				return printJSON(c.Context(), out, q.socket, "/"+name)
			}
			var answer T
			if err := socket.Get(c.Context(), q.socket, "/"+name, &answer); err != nil {
				return err
			}
			return write(out, answer)
		},
	}
}

// printJSON prints an answer unchanged, with keys that this binary does not know.
func printJSON(ctx context.Context, w io.Writer, socketPath, path string) error {
	var raw json.RawMessage
	if err := socket.Get(ctx, socketPath, path, &raw); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return fmt.Errorf("read answer of the router for %s: %w", path, err)
	}
	b.WriteByte('\n')
	_, err := b.WriteTo(w)
	return err
}

// newRoutesView returns the command that prints routes as a stream, because there can be a million.
func newRoutesView(q *queryFlags) *cobra.Command {
	var family string
	var limit int
	var summary, verify bool
	c := &cobra.Command{
		Use:   "routes",
		Short: "Show routes of the forwarding table",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case summary && verify:
				return cli.WrongUsage(c, errors.New("--summary and --verify exclude each other"))
			case (summary || verify) && (family != "" || limit != 0):
				return cli.WrongUsage(c, errors.New("--family and --limit do not apply to --summary and --verify"))
			case limit < 0:
				return cli.UsageError(fmt.Errorf("--limit %d: write the number of routes, or 0 for all", limit))
			case summary:
				return newView(q, "mirror", "", status.WriteMirror).RunE(c, nil)
			case verify:
				return verifyRoutes(c.Context(), c.OutOrStdout(), q)
			}
			query := url.Values{}
			switch family {
			case "4", "6":
				query.Set("family", family)
			case "":
			default:
				return cli.UsageError(fmt.Errorf("--family %s: write 4 or 6", family))
			}
			if limit > 0 {
				query.Set("limit", strconv.Itoa(limit))
			}
			return printRoutes(c.Context(), c.OutOrStdout(), q, "/routes?"+query.Encode())
		},
	}
	c.Flags().StringVar(&family, "family", "", "address `FAMILY`: 4 or 6 (default: both)")
	c.Flags().IntVar(&limit, "limit", 0, "print at most `N` routes; 0 means all")
	c.Flags().BoolVar(&summary, "summary", false, "print totals and synchronization state instead of routes")
	c.Flags().BoolVar(&verify, "verify", false, "compare the engines' tables with Linux's routes and neighbors; exit with 1 if they differ")
	cli.CompleteValues(c, "family", "4", "6")
	return c
}
