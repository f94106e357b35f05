package gpu

import "sync/atomic"

// health says whether a device can be relied on. It is shared by the device's
// workers and whoever keeps its tables; the first failure counts.
type health struct{ failure atomic.Pointer[error] }

func (h *health) ok() bool { return h.failure.Load() == nil }

func (h *health) fail(err error) { h.failure.CompareAndSwap(nil, &err) }

// err is why the device was taken out, nil if it was not.
func (h *health) err() error {
	if p := h.failure.Load(); p != nil {
		return *p
	}
	return nil
}
