package service

import (
	"testing"

	"github.com/warproute/warproute/fib"
)

// Linux accepts any number for rp_filter, and only 1 is strict (__fib_validate_source).
func TestRPFilterIsLooseExceptAtZeroAndOne(t *testing.T) {
	for value, want := range map[int]fib.ReversePath{
		-1: fib.LooseSource, 0: fib.AnySource, 1: fib.StrictSource, 2: fib.LooseSource, 3: fib.LooseSource, 7: fib.LooseSource,
	} {
		if got := parseRPFilter(value); got != want {
			t.Errorf("rp_filter %d is %d, want %d", value, got, want)
		}
	}
}
