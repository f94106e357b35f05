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
)

func newTopCommand() *cobra.Command {
	a := new(asking)
	var once bool
	interval := time.Second
	c := &cobra.Command{
		Use:   "top",
		Short: "Watch what a running router does",
		Long: `Top shows each second what a running router does: rates and drops of the ports, the
engine and its chunks, latencies of the stages, the most frequent reasons for drops,
and security associations with traffic. q or Ctrl-C ends it. Where standard output is no
terminal, or with --once, it prints plain text.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if interval < 100*time.Millisecond || interval > time.Minute {
				return usageError(fmt.Errorf("--interval %v: it is 100ms to 1m", interval))
			}
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			body, err := socket.Open(ctx, a.socket, "/top?"+url.Values{"interval": {interval.String()}}.Encode())
			if err != nil {
				return err
			}
			defer body.Close()
			out, isFile := c.OutOrStdout().(*os.File)
			if isFile && !once && !a.json {
				if s, ok := openScreen(os.Stdin, out); ok {
					defer s.close()
					go s.quitBy(cancel)
					return watchTop(body, s.show, false)
				}
			}
			return watchTop(body, printer(c.OutOrStdout(), a.json), once)
		},
	}
	a.addFlags(c)
	c.Flags().BoolVar(&once, "once", false, "print once, and end")
	c.Flags().DurationVar(&interval, "interval", interval, "`TIME` between two looks")
	return c
}

// watchTop shows what comes, in raw and in words.
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

// printer prints one snapshot below the other.
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
