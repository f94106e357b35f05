package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/packet/filter"
)

// choice is which packets to look at, and for how long: what capture and trace share.
type choice struct {
	ports    []string
	count    int
	duration time.Duration
}

func (o *choice) addFlags(c *cobra.Command) {
	c.Flags().StringArrayVarP(&o.ports, "port", "p", nil, "only packets of `INTERFACE`; may be repeated")
	c.Flags().IntVar(&o.count, "count", 0, "end after `N` packets; 0: never")
	c.Flags().DurationVar(&o.duration, "duration", 0, "end after `TIME`; 0: never")
}

// query is the choice as the router takes it. words are a filter's.
func (o *choice) query(words []string) (url.Values, error) {
	expr := strings.Join(words, " ")
	if _, err := filter.Parse(expr); err != nil {
		return nil, usageError(err)
	}
	if o.count < 0 || o.duration < 0 {
		return nil, usageError(errors.New("--count and --duration cannot be negative; 0: never end"))
	}
	q := url.Values{"port": o.ports}
	if expr != "" {
		q.Set("filter", expr)
	}
	if o.count > 0 {
		q.Set("count", strconv.Itoa(o.count))
	}
	if o.duration > 0 {
		q.Set("duration", o.duration.String())
	}
	return q, nil
}

func newCaptureCommand() *cobra.Command {
	var o choice
	var socketPath, file string
	var rx, tx, drop bool
	var reasons []string
	var snaplen int
	c := &cobra.Command{
		Use:   "capture -w FILE.pcapng [FILTER...]",
		Short: "Capture packets of a running router, with why they were dropped",
		Long: `Capture writes packets of a running router to a pcapng file, or with "-w -" to
standard output, until Ctrl-C. tcpdump cannot see them: AF_XDP takes them before.

  warproute capture -w - | tshark -r -
  warproute capture -w drops.pcapng --drop --port lan0
  warproute capture -w web.pcapng --count 100 tcp port 443 and net 10.0.0.0/8

There are received packets as the port had them (--rx), transmitted ones as they went
to the port (--tx), those that the router made itself included, and dropped ones
(--drop) with the reason as their comment: "tshark -r FILE -T fields -e frame.comment".
Without any of these flags all three are captured, and a dropped packet is there twice.
Interfaces are the ports; times are those of the packets' chunks.

FILTER is tcpdump's, see pcap-filter(7), without VLANs, MPLS and names of hosts. It
runs in the router. What a capture cannot keep up with is missed, not waited for: the
file and the last line tell how many packets.

As a gateway, the router shows traffic in clear: packets from hosts before they are
encrypted, packets to hosts after they were decrypted, and decrypted packets that are
dropped. Only the user that runs the router may capture, by its control socket.

Reasons for drops: ` + reasonNames() + `.`,
		RunE: func(c *cobra.Command, words []string) error {
			if file == "" {
				return wrongUsage(c, errors.New("where to? -w FILE.pcapng, or -w - for standard output"))
			}
			q, err := o.query(words)
			if err != nil {
				return err
			}
			if snaplen < 0 || snaplen > 65535 {
				return usageError(fmt.Errorf("--snaplen %d: it is a number of bytes up to 65535, or 0 for whole frames", snaplen))
			}
			if snaplen > 0 {
				q.Set("snaplen", strconv.Itoa(snaplen))
			}
			for _, name := range reasons {
				if _, ok := batch.ParseReason(name); !ok {
					return usageError(fmt.Errorf("--reason %s: there is no such reason; --help lists them", name))
				}
			}
			q["reason"] = reasons
			if !rx && !tx && !drop {
				drop = true
				rx = len(reasons) == 0
				tx = rx
			}
			for name, on := range map[string]bool{"rx": rx, "tx": tx, "drop": drop} {
				if on {
					q.Set(name, "1")
				}
			}
			return capturePackets(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), socketPath, file, q)
		},
	}
	o.addFlags(c)
	c.Flags().StringVar(&socketPath, "socket", config.Default().Control.Socket, "the router's control `SOCKET`")
	c.Flags().StringVarP(&file, "write", "w", "", "the `FILE` to write; -: standard output")
	c.Flags().BoolVar(&rx, "rx", false, "received packets")
	c.Flags().BoolVar(&tx, "tx", false, "transmitted packets")
	c.Flags().BoolVar(&drop, "drop", false, "dropped packets")
	c.Flags().StringArrayVar(&reasons, "reason", nil, "of the dropped packets only those for `REASON`; may be repeated")
	c.Flags().IntVar(&snaplen, "snaplen", 0, "keep the first `N` bytes of each packet; 0: all")
	return c
}

// capturePackets copies the router's answer to a file.
func capturePackets(ctx context.Context, stdout, stderr io.Writer, socketPath, file string, q url.Values) (err error) {
	body, err := socket.Open(ctx, socketPath, "/capture?"+q.Encode())
	if err != nil {
		return err
	}
	defer body.Close()
	out := stdout
	if file != stdoutName {
		f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) // it may hold what was encrypted
		if err != nil {
			return fmt.Errorf("write the capture: %w", err)
		}
		defer func() {
			if closeErr := f.Close(); err == nil {
				err = closeErr
			}
		}()
		out = f
	}
	if _, err := io.Copy(out, body); err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	_, err = fmt.Fprintf(stderr, "%s packets captured, %s missed\n", body.Note("Captured"), body.Note("Missed"))
	return err
}

// reasonNames lists the reasons for drops, in lines.
func reasonNames() string {
	var b strings.Builder
	column := len("Reasons for drops: ")
	for r := range batch.NumReasons {
		name := batch.Reason(r).String()
		if r > 0 {
			b.WriteString(",")
			if column += len(name) + 2; column > 86 {
				b.WriteString("\n")
				column = len(name)
			} else {
				b.WriteString(" ")
			}
		}
		b.WriteString(name)
	}
	return b.String()
}
