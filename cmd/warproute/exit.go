package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/warproute/warproute/control/config"
)

// The exit codes: 0 for success, 1 for failure, 2 for wrong usage or configuration.
const (
	exitFailure = 1
	exitUsage   = 2
)

// exitError is an error that decides the exit code.
type exitError struct {
	error
	code   int
	silent bool // what went wrong has been printed
}

func (e *exitError) Unwrap() error { return e.error }

// usageError marks an error as one of usage or configuration.
func usageError(err error) error { return &exitError{error: err, code: exitUsage} }

// reported is the failure of a command whose output has told of it already.
func reported(err error) error { return &exitError{error: err, code: exitFailure, silent: true} }

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	return exitFailure
}

// printError prints an error for a person. Lines about a configuration stay as
// they are, "file:line:column: ...", for editors to follow.
func printError(w io.Writer, err error) {
	if err == nil {
		return
	}
	if e, ok := errors.AsType[*exitError](err); ok && e.silent {
		return
	}
	if errs, ok := errors.AsType[config.Errors](err); ok {
		fmt.Fprintln(w, errs)
		return
	}
	fmt.Fprintf(w, "warproute: %v\n", err)
}
