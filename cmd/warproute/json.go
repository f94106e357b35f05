package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// stdoutName names standard output where a flag takes a file to write.
const stdoutName = "-"

// textOf returns where a command prints its results as text: standard output, or nowhere if
// that gets them as JSON.
func textOf(c *cobra.Command, jsonFile string) io.Writer {
	if jsonFile == stdoutName {
		return io.Discard
	}
	return c.OutOrStdout()
}

// writeJSON writes results to a file or to standard output; an empty path writes nothing.
func writeJSON(c *cobra.Command, path string, results any) error {
	if path == "" {
		return nil
	}
	data, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if path == stdoutName {
		_, err = c.OutOrStdout().Write(data)
	} else {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}
