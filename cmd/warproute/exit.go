package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/warproute/warproute/control/config"
)

// The exit codes other than 0, by the names of sysexits.h. None is 2: Go ends a program
// that panics with it, and a service manager has to tell a crash, after which a restart
// helps, from a configuration that stays wrong.
const (
	exitFailure  = 1
	exitUsage    = 64 // EX_USAGE: wrong arguments
	exitTempFail = 75 // EX_TEMPFAIL: the host lacks what the configuration names, and may have it later
	exitConfig   = 78 // EX_CONFIG: a wrong configuration
)

// exitError is an error that decides the exit code.
type exitError struct {
	error
	code   int
	silent bool // what went wrong has been printed
}

func (e *exitError) Unwrap() error { return e.error }

// usageError marks an error as one of usage.
func usageError(err error) error { return &exitError{error: err, code: exitUsage} }

// configError marks an error as one of the configuration, or of a host that does not have
// what the configuration names.
func configError(err error) error {
	code := exitConfig
	if errs, ok := errors.AsType[config.Errors](err); ok && errs.Transient() {
		code = exitTempFail
	}
	return &exitError{error: err, code: code}
}

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
