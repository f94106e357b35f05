package service

import (
	"time"

	"golang.org/x/sys/unix"
)

// maxClockStep is the largest drift between two ticks without a step: NTP slews by at most half a
// millisecond per second.
const maxClockStep = 100 * time.Millisecond

// clockStep detects that the time of day was set. It compares with the time since boot, which
// advances during suspend. The zero value is ready to use.
type clockStep struct {
	offset time.Duration // time of day minus time since boot
	begun  bool
}

// by returns how far the clock was set since the last call, 0 if at most maxClockStep.
func (c *clockStep) by(day, boot time.Duration) time.Duration {
	offset := day - boot
	step := offset - c.offset
	if !c.begun {
		step = 0
	}
	c.offset, c.begun = offset, true
	if step.Abs() <= maxClockStep {
		return 0
	}
	return step
}

// clocks returns the time of day and the time since boot.
func clocks() (day, boot time.Duration) {
	read := func(clock int32) time.Duration {
		var ts unix.Timespec
		_ = unix.ClockGettime(clock, &ts) // both exist since Linux 2.6.39
		return time.Duration(ts.Nano())
	}
	return read(unix.CLOCK_REALTIME), read(unix.CLOCK_BOOTTIME)
}
