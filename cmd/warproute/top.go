package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/cli"
)

func newTopCommand() *cobra.Command {
	q := new(queryFlags)
	var once bool
	interval := time.Second
	c := &cobra.Command{
		Use:   "top",
		Short: "Watch rates, latencies and drops",
		Long: `Show every second the rates and drops of ports, chunks of the engine, latencies of stages,
the most frequent drop reasons, and security associations with traffic. Press q or Ctrl-C to
quit. If standard output is not a terminal, or with --once, it prints plain text.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if interval < 100*time.Millisecond || interval > time.Minute {
				return cli.UsageError(fmt.Errorf("--interval %v: write 100ms to 1m", interval))
			}
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			body, err := socket.Open(ctx, q.socket, "/top?"+url.Values{"interval": {interval.String()}}.Encode())
			if err != nil {
				return err
			}
			defer body.Close()
			out, isFile := c.OutOrStdout().(*os.File)
			if isFile && !once && !q.json {
				if s, ok := openScreen(os.Stdin, out); ok {
					defer s.close()
					go s.quitBy(cancel)
					return watchTop(body, s.show, false)
				}
			}
			return watchTop(body, printer(c.OutOrStdout(), q.json), once)
		},
	}
	q.addFlags(c)
	c.Flags().BoolVar(&once, "once", false, "print once and exit")
	c.Flags().DurationVar(&interval, "interval", interval, "`TIME` between updates")
	return c
}

// watchTop passes every snapshot to show, as JSON and as text.
func watchTop(body io.Reader, show func(raw []byte, text []byte) error, once bool) error {
	for t, err := range answers[status.Top](body) {
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := status.WriteTop(&text, t.value); err != nil {
			return err
		}
		if err := show(t.raw, text.Bytes()); err != nil || once {
			return err
		}
	}
	return nil
}

// printer returns a function that prints snapshots one below the other.
func printer(w io.Writer, asJSON bool) func(raw, text []byte) error {
	first := true
	return func(raw, text []byte) error {
		if asJSON {
			_, err := fmt.Fprintf(w, "%s\n", raw)
			return err
		}
		if !first {
			fmt.Fprintln(w)
		}
		first = false
		_, err := w.Write(text)
		return err
	}
}
