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
	var o choice
	a := new(asking)
	c := &cobra.Command{
		Use:   "trace [FILTER...]",
		Short: "Tell what a running router decides on packets, and why",
		Long: `Trace tells of packets of a running router, chosen when they are received, what each
stage decided: the association that opened one and the policies that let it pass, the
route, as ` + "`ip route get`" + ` has it, the next hop with the member of a group that the flow
takes, the neighbour, the verdict with its reason, and the times of its chunk.

  warproute trace --count 1 dst host 192.0.2.1
  warproute trace --port lan0 --json icmp | jq .verdict

The engine is not asked: the forwarding base is walked again for what it decided. If
that says something else by now, the trace tells. A packet that waits for its
neighbour is told of once, when it begins to. FILTER is tcpdump's, see pcap-filter(7).
At high rates these are samples: 64 packets of a worker at a time.`,
		RunE: func(c *cobra.Command, words []string) error {
			q, err := o.query(words)
			if err != nil {
				return err
			}
			return tracePackets(c.Context(), c.OutOrStdout(), a, q)
		},
	}
	a.addFlags(c)
	o.addFlags(c)
	return c
}

// tracePackets prints traces as they come.
func tracePackets(ctx context.Context, w io.Writer, a *asking, q url.Values) error {
	body, err := socket.Open(ctx, a.socket, "/trace?"+q.Encode())
	if err != nil {
		return err
	}
	defer body.Close()
	for t, err := range answers[status.Trace](body) {
		switch {
		case err != nil:
		case a.json:
			_, err = fmt.Fprintf(w, "%s\n", t.raw)
		default:
			err = status.WriteTrace(w, t.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
