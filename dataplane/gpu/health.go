package gpu

import (
	"sync/atomic"
	"time"
)

// Outage is since when a GPU is not used, and why.
type Outage struct {
	Since time.Time
	Why   error
}

// health says whether a device can be relied on. It is shared by the device's
// workers and whoever keeps its tables; the first failure counts, and is final.
type health struct{ failure atomic.Pointer[Outage] }

func (h *health) ok() bool { return h.failure.Load() == nil }

func (h *health) fail(why error) { h.failure.CompareAndSwap(nil, &Outage{time.Now(), why}) }

// err is why the device was taken out, nil if it was not.
func (h *health) err() error {
	if o := h.failure.Load(); o != nil {
		return o.Why
	}
	return nil
}
