package gpu

import (
	"errors"
	"sync/atomic"
	"time"
)

// Cause classifies the outage of a GPU.
type Cause string

const (
	CauseTimeout   Cause = "timeout"    // a chunk missed its deadline
	CauseFault     Cause = "fault"      // driver error, or a table without room
	CauseBadResult Cause = "bad_result" // impossible result
	CauseMismatch  Cause = "mismatch"   // the CPU engine has another result
)

// wrongResult is the error of a GPU that returned a wrong result.
type wrongResult struct {
	cause Cause
	text  string
}

func (w *wrongResult) Error() string { return w.text }

// causeOf returns the cause of a device failure.
func causeOf(why error) Cause {
	var w *wrongResult
	if errors.As(why, &w) {
		return w.cause
	}
	return CauseFault
}

// Outage is a time in which a GPU is not used.
type Outage struct {
	Since time.Time
	Why   error
}

// deviceState is whether a device is usable, shared by its workers and the writer of its tables. The
// first failure is final.
type deviceState struct {
	failure   atomic.Pointer[Outage]
	destroyed atomic.Bool // the device's context, so that the device no longer writes to memory
}

func (s *deviceState) ok() bool { return s.failure.Load() == nil }

func (s *deviceState) fail(why error) { s.failure.CompareAndSwap(nil, &Outage{time.Now(), why}) }

// err returns the failure of the device, nil if it is usable.
func (s *deviceState) err() error {
	if o := s.failure.Load(); o != nil {
		return o.Why
	}
	return nil
}
