// Command reference writes docs/reference/metrics.md and docs/reference/json.md from the source code.
package main

//go:generate go run .

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := write("../.."); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

// write writes both documents below the root of the repository.
func write(root string) error {
	documents, err := generate(root)
	if err != nil {
		return err
	}
	for name, text := range documents {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the documents by their paths in the repository.
func generate(root string) (map[string]string, error) {
	metrics, err := metricsReference(root)
	if err != nil {
		return nil, err
	}
	answers, err := jsonReference(root)
	if err != nil {
		return nil, err
	}
	return map[string]string{"docs/reference/metrics.md": metrics, "docs/reference/json.md": answers}, nil
}
