package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/warproute/warproute/control/config"
)

// Exit codes other than 0, named as in sysexits.h. 2 is not used: a panic exits with 2, and a
// service manager restarts after a crash but not after a configuration error.
const (
	ExitFailure     = 1
	ExitUsage       = 64 // EX_USAGE: wrong arguments
	ExitUnavailable = 69 // EX_UNAVAILABLE: the running router does not support the command
	ExitTempFail    = 75 // EX_TEMPFAIL: the configuration names something that the host lacks for now
	ExitConfig      = 78 // EX_CONFIG: invalid configuration
)

// exitError is an error with an exit code.
type exitError struct {
	error
	code   int
	silent bool // the command has printed it
}

func (e *exitError) Unwrap() error { return e.error }

// UsageError marks err as wrong usage.
func UsageError(err error) error { return &exitError{error: err, code: ExitUsage} }

// ConfigError marks err as a configuration error, transient if the host only lacks what the
// configuration names.
func ConfigError(err error) error {
	code := ExitConfig
	if errs, ok := errors.AsType[config.Errors](err); ok && errs.Transient() {
		code = ExitTempFail
	}
	return &exitError{error: err, code: code}
}

// WithCode gives err an exit code.
func WithCode(err error, code int) error { return &exitError{error: err, code: code} }

// Printed marks err as printed: Main exits with its code and prints nothing.
func Printed(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{error: err, code: ExitCode(err), silent: true}
}

// ExitCode returns the exit code for an error of a command.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	return ExitFailure
}

// PrintError prints an error of a program. Configuration errors keep the form
// "file:line:column: message", which editors can follow.
func PrintError(w io.Writer, program string, err error) {
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
	fmt.Fprintf(w, "%s: %v\n", program, err)
}
