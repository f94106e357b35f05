package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/cli"
)

// profiled adds --cpu-profile to a command. The profile is also written if the command fails, or if
// SIGINT or SIGTERM end it.
func profiled(c *cobra.Command) *cobra.Command {
	run, path := c.RunE, ""
	c.Flags().StringVar(&path, "cpu-profile", "", "write a CPU profile for go tool pprof to `FILE`")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if path == "" {
			return run(c, args)
		}
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, os.Interrupt, unix.SIGTERM)
		f, err := os.Create(path) // now, to fail early
		if err != nil {
			return cli.UsageError(fmt.Errorf("--cpu-profile: %w", err))
		}
		var profile bytes.Buffer // pprof does not report write errors
		if err := pprof.StartCPUProfile(&profile); err != nil {
			return fmt.Errorf("--cpu-profile %s: %w", path, errors.Join(err, f.Close()))
		}
		finish := sync.OnceValue(func() error {
			pprof.StopCPUProfile()
			_, err := f.Write(profile.Bytes())
			if err := errors.Join(err, f.Close()); err != nil {
				return fmt.Errorf("--cpu-profile: %w", err)
			}
			return nil
		})
		defer func() { err = cmp.Or(err, finish()) }()
		go func() {
			sig := <-ended
			cli.PrintError(os.Stderr, c.Root().Name(), finish())
			signal.Reset(sig)
			_ = unix.Kill(os.Getpid(), sig.(unix.Signal)) // end as without this handler
		}()
		return run(c, args)
	}
	return c
}
