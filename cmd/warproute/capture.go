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
	"github.com/warproute/warproute/internal/cli"
	"github.com/warproute/warproute/packet/filter"
)

// selection is the packets to capture or trace, and when to stop.
type selection struct {
	ports    []string
	count    int
	duration time.Duration
}

func (o *selection) addFlags(c *cobra.Command) {
	c.Flags().StringArrayVarP(&o.ports, "port", "p", nil, "only packets of interface `IFACE`; repeatable")
	c.Flags().IntVar(&o.count, "count", 0, "stop after `N` packets; 0 means never")
	c.Flags().DurationVar(&o.duration, "duration", 0, "stop after `TIME`; 0 means never")
	cli.CompletePorts(c, "port")
}

// query returns the selection as URL parameters. words are the filter.
func (o *selection) query(words []string) (url.Values, error) {
	expr := strings.Join(words, " ")
	if _, err := filter.Parse(expr); err != nil {
		return nil, cli.UsageError(err)
	}
	if o.count < 0 || o.duration < 0 {
		return nil, cli.UsageError(errors.New("--count and --duration cannot be negative; 0 means never"))
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
	var o selection
	var socketPath, file string
	var rx, tx, drop bool
	var reasons []string
	var snaplen int
	c := &cobra.Command{
		Use:   "capture -w FILE.pcapng [FILTER...]",
		Short: "Capture packets, with drop reasons as packet comments",
		Long: `Write packets of the running router to a pcapng file, or with "-w -" to standard output,
until Ctrl-C. tcpdump cannot see these packets, because AF_XDP receives them first.

  warproute capture -w - | tshark -r -
  warproute capture -w drops.pcapng --drop --port lan0
  warproute capture -w web.pcapng --count 100 tcp port 443 and net 10.0.0.0/8

--rx selects packets as received, --tx packets as transmitted, with those that the router
generates, and --drop dropped packets, with the reason as the packet comment
("tshark -r FILE -T fields -e frame.comment"). Without these flags all three are captured,
and a dropped packet appears twice. Packets of a chunk have one timestamp.

FILTER has the syntax of pcap-filter(7), without VLANs, MPLS and host names. It runs in the
router. A capture that is too slow misses packets and never delays the router; the file and
the last line report their number.

On an IPsec gateway the capture has cleartext: packets from hosts before encryption, packets
to hosts after decryption, and decrypted packets that are dropped. Only root and the user
of the router can capture, through its control socket.

Drop reasons: ` + reasonNames() + `.`,
		RunE: func(c *cobra.Command, words []string) error {
			if file == "" {
				return cli.WrongUsage(c, errors.New("capture needs -w FILE.pcapng, or -w - for standard output"))
			}
			q, err := o.query(words)
			if err != nil {
				return err
			}
			if snaplen < 0 || snaplen > 65535 {
				return cli.UsageError(fmt.Errorf("--snaplen %d: write 1 to 65535 bytes, or 0 for whole frames", snaplen))
			}
			if snaplen > 0 {
				q.Set("snaplen", strconv.Itoa(snaplen))
			}
			for _, name := range reasons {
				if _, ok := batch.ParseReason(name); !ok {
					return cli.UsageError(fmt.Errorf("--reason %s: unknown reason; --help lists them", name))
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
	c.Flags().StringVar(&socketPath, "socket", config.Default().Control.Socket, "`PATH` of the router's control socket")
	c.Flags().StringVarP(&file, "write", "w", "", "pcapng `FILE` to write; \"-\" is standard output")
	c.Flags().BoolVar(&rx, "rx", false, "capture received packets")
	c.Flags().BoolVar(&tx, "tx", false, "capture transmitted packets")
	c.Flags().BoolVar(&drop, "drop", false, "capture dropped packets")
	c.Flags().StringArrayVar(&reasons, "reason", nil, "capture only packets dropped for `REASON`; repeatable")
	c.Flags().IntVar(&snaplen, "snaplen", 0, "keep the first `N` bytes of each packet; 0 means all")
	cli.CompleteValues(c, "reason", dropReasons()...)
	return c
}

// capturePackets copies a capture from the router to a file.
func capturePackets(ctx context.Context, stdout, stderr io.Writer, socketPath, file string, q url.Values) (err error) {
	body, err := socket.Open(ctx, socketPath, "/capture?"+q.Encode())
	if err != nil {
		return err
	}
	defer body.Close()
	out := stdout
	if file != cli.Stdout {
		f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) // it can contain decrypted traffic
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

// dropReasons returns the names of all drop reasons.
func dropReasons() (names []string) {
	for r := range batch.NumReasons {
		names = append(names, batch.Reason(r).String())
	}
	return names
}

// reasonNames returns the drop reasons as text in lines.
func reasonNames() string {
	var b strings.Builder
	column := len("Drop reasons: ")
	for i, name := range dropReasons() {
		if i > 0 {
			b.WriteString(",")
			if column += len(name) + 2; column > 90 {
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
