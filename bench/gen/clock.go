package gen

import (
	"time"

	"golang.org/x/sys/unix"
)

// The clock of probes is CLOCK_MONOTONIC, which all processes of a host share. Go reads it fast, but
// returns only differences.
var clockStart, clockBase = time.Now(), monotonic()

func monotonic() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // never fails: every Linux has this clock
	return time.Duration(ts.Nano())
}

func clock() time.Duration { return clockBase + time.Since(clockStart) }
