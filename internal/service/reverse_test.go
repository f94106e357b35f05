package service

import (
	"testing"

	"github.com/warproute/warproute/fib"
)

// Linux takes any number for rp_filter, and is strict at 1 alone (__fib_validate_source).
func TestNumbersBeyondThoseOfRpFilterAreLoose(t *testing.T) {
	for value, want := range map[int]fib.ReversePath{
		-1: fib.LooseSource, 0: fib.AnySource, 1: fib.StrictSource, 2: fib.LooseSource, 3: fib.LooseSource, 7: fib.LooseSource,
	} {
		if is := meaning(value); is != want {
			t.Errorf("rp_filter %d is taken as %d, want %d", value, is, want)
		}
	}
}
