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
address, addresses are read from standard input, separated by white space, and
answered ` + fmt.Sprint(addrsAtOnce) + ` at a time: columns are aligned among those.

With --routes and --engine gpu the first GPU gets a copy of the tables, and answers by
the router's device code; a router that uses that GPU takes turns with it meanwhile.
Without --routes, --engine gpu has the running router look into its GPUs' copies of the
tables, too: it is an error if one of them has another route or next hop.`,
		RunE: func(c *cobra.Command, args []string) error {
			batches, err := addrBatches(args, c.InOrStdin(), file)
			if err != nil {
				return usageError(err)
			}
			look, err := openLookup(c.Context(), a.socket, file, engine)
			if err != nil {
				return err
			}
			out := bufio.NewWriter(c.OutOrStdout())
			err = printAnswers(out, a.json, batches, look.answer)
			return errors.Join(err, out.Flush(), look.close())
		},
	}
	a.addFlags(c)
	c.Flags().StringVar(&file, "routes", "", "look in `FILE` instead of the running router")
	c.Flags().StringVar(&engine, "engine", "cpu", "`ENGINE` that looks up: cpu or gpu")
	return c
}

// printAnswers answers batches of addresses as they come. What came before an error is
// printed too.
func printAnswers(w io.Writer, asJSON bool, batches iter.Seq2[[]netip.Addr, error], answer func([]netip.Addr) ([]status.Answer, error)) error {
	table, array := status.NewAnswerTable(w), answerArray{w: w}
	for addrs, err := range batches {
		if err != nil {
			return usageError(err)
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

// answerArray writes answers as they come, as one array of JSON.
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
