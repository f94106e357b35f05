package main

import (
	"fmt"
	"os"
	"runtime/pprof"

	"github.com/spf13/cobra"
)

// profiled gives a command a flag for a file to which it writes where the processor's
// time went, as go tool pprof and the compiler (-pgo) read it.
func profiled(c *cobra.Command) *cobra.Command {
	run, path := c.RunE, ""
	c.Flags().StringVar(&path, "cpu-profile", "", "also write to a `file` where the processor's time went, for go tool pprof")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if path == "" {
			return run(c, args)
		}
		f, err := os.Create(path)
		if err != nil {
			return usageError(fmt.Errorf("--cpu-profile: %w", err))
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return fmt.Errorf("--cpu-profile %s: %w", path, err)
		}
		defer func() {
			pprof.StopCPUProfile()
			if e := f.Close(); e != nil && err == nil {
				err = fmt.Errorf("--cpu-profile %s: %w", path, e)
			}
		}()
		return run(c, args)
	}
	return c
}
