//go:build !amd64 || race

package counter

import "sync/atomic"

func store(at *uint64, n uint64) { atomic.StoreUint64(at, n) }
