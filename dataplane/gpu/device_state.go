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
	CauseFault     Cause = "fault"      // driver error
	CauseTableFull Cause = "table_full" // a route table exceeds its memory on the device
	CauseBadResult Cause = "bad_result" // impossible result
	CauseMismatch  Cause = "mismatch"   // the CPU engine has another result
)

// failure is a failure of a device for another cause than CauseFault.
type failure struct {
	cause Cause
	text  string
}

func (f *failure) Error() string { return f.text }

// causeOf returns the cause of a device failure.
func causeOf(why error) Cause {
	var f *failure
	if errors.As(why, &f) {
		return f.cause
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
	stale     atomic.Pointer[Outage] // the tables miss changes; nil: they are up to date
	progress  progress
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
