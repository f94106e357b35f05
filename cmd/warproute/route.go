package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/cli"
)

func newRouteCommand() *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "route", Short: "Look up routes"})
	c.AddCommand(newLookupCommand())
	return c
}

func newLookupCommand() *cobra.Command {
	q := new(queryFlags)
	var file, engine, vrf string
	c := &cobra.Command{
		Use:   "lookup [ADDR...]",
		Short: "Show the route, next hop and port of an address",
		Long: `Show the route, next hop and port of addresses: of the running router, or with --routes of a
file. The file has lines of ` + "`ip route` and `ip -6 route`" + `, or plain prefixes; it can be
gzip-compressed, and "-" is standard input. Without arguments, addresses are read from
standard input, separated by white space, and answered ` + fmt.Sprint(addrsAtOnce) + ` at a time.

With --engine gpu the running router also compares the tables of its GPUs; a difference is an
error. With --routes, the first GPU gets a copy of the tables and looks up the addresses.`,
		RunE: func(c *cobra.Command, args []string) error {
			batches, err := addrBatches(args, c.InOrStdin(), file)
			if err != nil {
				return cli.UsageError(err)
			}
			resolver, err := openLookup(c.Context(), q.socket, file, vrf, engine)
			if err != nil {
				return err
			}
			out := bufio.NewWriter(c.OutOrStdout())
			err = printAnswers(out, q.json, batches, resolver.answer)
			return errors.Join(err, out.Flush(), resolver.close())
		},
	}
	q.addFlags(c)
	c.Flags().StringVar(&file, "routes", "", "look up in `FILE` instead of the running router")
	c.Flags().StringVar(&vrf, "vrf", "", "look up in the table of VRF `NAME` of the running router")
	c.Flags().StringVar(&engine, "engine", "cpu", "lookup `ENGINE`: cpu or gpu")
	cli.CompleteValues(c, "engine", "cpu", "gpu")
	return c
}

// printAnswers prints the answers to batches of addresses. Answers before an error are printed too.
func printAnswers(w io.Writer, asJSON bool, batches iter.Seq2[[]netip.Addr, error], answer func([]netip.Addr) ([]status.Answer, error)) error {
	table, array := status.NewAnswerTable(w), answerArray{w: w}
	for addrs, err := range batches {
		if err != nil {
			return cli.UsageError(err)
		}
		answers, err := answer(addrs)
		if err != nil {
			return err
		}
		if asJSON {
			err = array.write(answers)
		} else {
			err = table.Write(answers)
		}
		if err != nil {
			return err
		}
	}
	if asJSON {
		return array.end()
	}
	return nil
}

// answerArray writes a stream of answers as one JSON array.
type answerArray struct {
	w     io.Writer
	begun bool
}

func (a *answerArray) write(answers []status.Answer) error {
	for i := range answers {
		before := ",\n  "
		if !a.begun {
			before, a.begun = "[\n  ", true
		}
		text, err := json.MarshalIndent(&answers[i], "  ", "  ")
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(a.w, "%s%s", before, text); err != nil {
			return err
		}
	}
	return nil
}

func (a *answerArray) end() error {
	_, err := io.WriteString(a.w, "\n]\n")
	return err
}
