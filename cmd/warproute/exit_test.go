package main

import (
	"errors"
	"testing"

	"github.com/warproute/warproute/control/config"
)

// A crash of Go's exits with 2, which must mean nothing else: a service manager restarts
// after it, and not after what a restart does not help.
func TestExitCodesTellWhetherARestartHelps(t *testing.T) {
	wrong, missing := &config.Error{Msg: "wrong"}, &config.Error{Msg: "missing", Transient: true}
	for _, tt := range []struct {
		name string
		err  error
		want int
	}{
		{"success", nil, 0},
		{"failure", errors.New("failure"), 1},
		{"usage", usageError(errors.New("usage")), 64},
		{"a file that cannot be read", configError(errors.New("no such file")), 78},
		{"a wrong value", configError(config.Errors{wrong}), 78},
		{"a missing port", configError(config.Errors{missing}), 75},
		{"both", configError(config.Errors{missing, wrong}), 78},
	} {
		if got := exitCode(tt.err); got != tt.want {
			t.Errorf("%s: exit code %d, want %d", tt.name, got, tt.want)
		}
	}
}
