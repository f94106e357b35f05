package service

import (
	"testing"

	"github.com/warproute/warproute/fib"
)

// Linux accepts any number for rp_filter, and only 1 is strict (__fib_validate_source).
func TestRPFilterIsLooseExceptAtZeroAndOne(t *testing.T) {
	for value, want := range map[int]fib.RPFMode{
		-1: fib.RPFLoose, 0: fib.RPFOff, 1: fib.RPFStrict, 2: fib.RPFLoose, 3: fib.RPFLoose, 7: fib.RPFLoose,
	} {
		if got := parseRPFilter(value); got != want {
			t.Errorf("rp_filter %d is %d, want %d", value, got, want)
		}
	}
}
