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
)

// profiled gives a command a flag for a file to which it writes where the processor's
// time went, as go tool pprof and the compiler (-pgo) read it; also if it fails, or if
// SIGINT or SIGTERM end it.
func profiled(c *cobra.Command) *cobra.Command {
	run, path := c.RunE, ""
	c.Flags().StringVar(&path, "cpu-profile", "", "also write to a `file` where the processor's time went, for go tool pprof")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if path == "" {
			return run(c, args)
		}
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, os.Interrupt, unix.SIGTERM)
		f, err := os.Create(path) // now, lest it fails after minutes
		if err != nil {
			return usageError(fmt.Errorf("--cpu-profile: %w", err))
		}
		var profile bytes.Buffer // pprof does not say that it could not write
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
			printError(os.Stderr, finish())
			signal.Reset(sig)
			_ = unix.Kill(os.Getpid(), sig.(unix.Signal)) // ends it as if nobody had waited for it
		}()
		return run(c, args)
	}
	return c
}
