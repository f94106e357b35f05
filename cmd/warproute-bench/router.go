package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
)

// addRouterFlag adds --router.
func addRouterFlag(c *cobra.Command, path *string) {
	c.Flags().StringVar(path, "router", "", "warproute `program` (default: next to this program, else on PATH)")
}

// findRouter returns the path of the warproute program.
func findRouter(path string) (string, error) {
	if path != "" {
		return path, nil
	}
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), "warproute")); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("warproute")
	if err != nil {
		return "", fmt.Errorf("find the router program: %w; build it with `make build` or name it with --router", err)
	}
	return path, nil
}
