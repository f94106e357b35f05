package service

import (
	"testing"
	"time"
)

func TestClockStepsAreDetected(t *testing.T) {
	var c clockStep
	const day = 1_800_000_000 * time.Second
	for i, test := range []struct{ day, boot, want time.Duration }{
		{day, 100 * time.Second, 0}, // the first
		{day + time.Second, 101 * time.Second, 0},
		{day + time.Hour, 101*time.Second + time.Hour - time.Second, 0}, // suspended
		{day + time.Hour + 2*time.Second, 102*time.Second + time.Hour - time.Second, time.Second},
		{day + time.Hour + 3*time.Second, 103*time.Second + time.Hour - time.Second, 0},
		{day, 104*time.Second + time.Hour - time.Second, -time.Hour - 4*time.Second}, // set back
		{day + 1100*time.Millisecond, 105*time.Second + time.Hour - time.Second, 0},  // slewed
	} {
		if got := c.by(test.day, test.boot); got != test.want {
			t.Errorf("call %d: set by %v, want %v", i, got, test.want)
		}
	}
	if d := c.by(clocks()); d == 0 {
		t.Error("the host's clocks are those of the test")
	}
	if d := c.by(clocks()); d != 0 {
		t.Errorf("the host's clock was set by %v in between", d)
	}
}
