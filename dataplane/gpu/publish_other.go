//go:build !amd64

package gpu

import "sync/atomic"

// publish stores a word after all that was stored before it.
func publish(at *uint64, word uint64) { atomic.StoreUint64(at, word) }
