// Command warproute is a software router: see `warproute --help`.
//
// This package wires the others together and holds what a user meets: verbs,
// flags, messages. Each verb is a file.
package main

import (
	"context"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	err := newRootCommand().ExecuteContext(ctx)
	stop()
	printError(os.Stderr, err)
	os.Exit(exitCode(err))
}
