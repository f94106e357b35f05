package main

import (
	"context"
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
)

func newTraceCommand() *cobra.Command {
	var o selection
	flags := new(queryFlags)
	c := &cobra.Command{
		Use:   "trace [FILTER...]",
		Short: "Explain the router's decisions on matching packets",
		Long: `Explain, stage by stage, what the router does with matching packets: decryption and
policies, the route (as in ` + "`ip route get`" + `), the next hop with the ECMP member of the
flow, the neighbor, the verdict with its reason, and the times of the chunk.

  warproute trace --count 1 dst host 192.0.2.1
  warproute trace --port lan0 --json icmp | jq .verdict

Packets are selected when they are received. The trace repeats the lookups of the engine and
reports a difference, if the tables have changed since. A packet that waits for its neighbor
is reported once, when it is queued. FILTER has the syntax of pcap-filter(7). At high rates
the trace is a sample: 64 packets of a worker at a time.`,
		RunE: func(c *cobra.Command, words []string) error {
			query, err := o.query(words)
			if err != nil {
				return err
			}
			return tracePackets(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), flags, query)
		},
	}
	flags.addFlags(c)
	o.addFlags(c)
	return c
}

// tracePackets prints a stream of traces to w, and to messages that there was none.
func tracePackets(ctx context.Context, w, messages io.Writer, flags *queryFlags, query url.Values) error {
	body, err := socket.Open(ctx, flags.socket, "/trace?"+query.Encode())
	if err != nil {
		return err
	}
	defer body.Close()
	traced := 0
	for t, err := range answers[status.Trace](body) {
		switch {
		case err != nil:
		case flags.json:
			_, err = fmt.Fprintf(w, "%s\n", t.raw)
		default:
			err = status.WriteTrace(w, t.value)
		}
		if err != nil {
			return err
		}
		traced++
	}
	if traced == 0 && !flags.json && ctx.Err() == nil {
		_, err = fmt.Fprintln(messages, "no packet matched")
	}
	return err
}
