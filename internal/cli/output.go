package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// Stdout is the file name that stands for standard output.
const Stdout = "-"

// Results are the output flags of a command that measures.
type Results struct {
	json bool
	file string
}

// AddFlags adds --json and --output.
func (r *Results) AddFlags(c *cobra.Command) {
	c.Flags().BoolVar(&r.json, "json", false, "print JSON instead of text")
	c.Flags().StringVarP(&r.file, "output", "o", "", "also write JSON to `FILE`; \"-\" is standard output, without text")
}

// Text returns the writer for text: standard output, or a discarding one if that gets JSON.
func (r *Results) Text(c *cobra.Command) io.Writer {
	if r.json || r.file == Stdout {
		return io.Discard
	}
	return c.OutOrStdout()
}

// Write writes results as JSON, to wherever the flags ask for it.
func (r *Results) Write(c *cobra.Command, results any) error {
	if r.json || r.file == Stdout {
		if err := WriteJSON(c.OutOrStdout(), results); err != nil {
			return fmt.Errorf("write results: %w", err)
		}
	}
	if r.file == "" || r.file == Stdout {
		return nil
	}
	f, err := os.Create(r.file)
	if err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	if err := WriteJSON(f, results); err != nil {
		f.Close()
		return fmt.Errorf("write results: %w", err)
	}
	return f.Close()
}

// WriteJSON writes v as indented JSON.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
