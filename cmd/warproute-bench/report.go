package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/bench/report"
	"github.com/warproute/warproute/internal/cli"
)

func newReportCommand() *cobra.Command {
	var dir, title string
	c := &cobra.Command{
		Use:   "report FILE...",
		Short: "Draw benchmark results as SVG",
		Long: `Draw JSON results of express, forward, ipsec, ladder, latency, load, lookup and veth as SVG: bars
with the limit as a line, throughput and latency versus chunk size or load, and cumulative distributions of latencies. Each FILE.json becomes FILE.svg; "-" reads
standard input and writes standard output.

  warproute-bench forward --output out/forward.json
  warproute-bench report --dir out out/forward.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			if title != "" && len(files) > 1 {
				return cli.UsageError(errors.New("--title applies to one file"))
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			for _, file := range files {
				if err := drawReport(c, file, dir, title); err != nil {
					return fmt.Errorf("report %s: %w", file, err)
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&dir, "dir", ".", "`DIRECTORY` of the SVG files")
	c.Flags().StringVar(&title, "title", "", "title of the plot (default: the file's name)")
	return c
}

// drawReport draws one file of results.
func drawReport(c *cobra.Command, file, dir, title string) error {
	var results []byte
	var err error
	if file == cli.Stdout {
		results, err = io.ReadAll(c.InOrStdin())
	} else {
		results, err = os.ReadFile(file)
	}
	if err != nil {
		return err
	}
	name := strings.TrimSuffix(filepath.Base(file), ".json")
	if title == "" && file != cli.Stdout {
		title = name
	}
	svg, err := report.Draw(title, results)
	if err != nil {
		return err
	}
	if file == cli.Stdout {
		_, err = c.OutOrStdout().Write(svg)
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".svg"), svg, 0o644)
}
