package gpu

import (
	"errors"
	"sync/atomic"
	"time"
)

// Cause is why a GPU was taken out of use.
type Cause string

const (
	CauseTimeout   Cause = "timeout"    // it missed its deadline for a chunk
	CauseFault     Cause = "fault"      // the driver reported an error, or tables have no room
	CauseBadResult Cause = "bad_result" // a result that cannot be right
	CauseMismatch  Cause = "mismatch"   // the CPU came to another result
)

// distrust is the error of a GPU that answered wrongly.
type distrust struct {
	cause Cause
	why   string
}

func (d *distrust) Error() string { return d.why }

// causeOf returns why a GPU failed for good.
func causeOf(why error) Cause {
	var d *distrust
	if errors.As(why, &d) {
		return d.cause
	}
	return CauseFault
}

// Outage is since when a GPU is not used, and why.
type Outage struct {
	Since time.Time
	Why   error
}

// health says whether a device can be relied on. It is shared by the device's
// workers and whoever keeps its tables; the first failure counts, and is final.
type health struct {
	failure   atomic.Pointer[Outage]
	destroyed atomic.Bool // the device's context: nothing of it writes to memory any more
}

func (h *health) ok() bool { return h.failure.Load() == nil }

func (h *health) fail(why error) { h.failure.CompareAndSwap(nil, &Outage{time.Now(), why}) }

// err is why the device was taken out, nil if it was not.
func (h *health) err() error {
	if o := h.failure.Load(); o != nil {
		return o.Why
	}
	return nil
}
