package service

import (
	"time"

	"golang.org/x/sys/unix"
)

// maxClockStep is how much the clock may move by itself between two ticks: NTP slews by half a
// millisecond a second at most.
const maxClockStep = 100 * time.Millisecond

// clockStep notices that the time of day was set. The time since boot goes on through suspend,
// so that it does not look like that. The zero clockStep begins with the first look.
type clockStep struct {
	offset time.Duration // of the time of day, from the time since boot
	begun  bool
}

// by returns how far the clock was set since the last call, 0 for less than maxClockStep.
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
		_ = unix.ClockGettime(clock, &ts) // both are there since Linux 2.6.39
		return time.Duration(ts.Nano())
	}
	return read(unix.CLOCK_REALTIME), read(unix.CLOCK_BOOTTIME)
}

// renewNonces draws another base, because the memory of this router may exist twice.
func (s *Service) renewNonces(why string, about ...any) {
	s.ipsec.gateway.Nonces.Renew()
	s.log.Info("nonces continue from another base", append([]any{"reason", why}, about...)...)
}
