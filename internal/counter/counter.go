// Package counter counts events of one goroutine for any number of readers.
package counter

import (
	"sync/atomic"

	"github.com/warproute/warproute/internal/ordered"
)

// Counter is a number that one goroutine adds to and any goroutine reads. The zero Counter is 0.
type Counter uint64

// Add adds n. Only one goroutine calls it.
func (c *Counter) Add(n uint64) { ordered.Add((*uint64)(c), n) }

// AddPair adds n to c and m to d with one call. Only one goroutine calls it.
func AddPair(c, d *Counter, n, m uint64) { ordered.AddPair((*uint64)(c), (*uint64)(d), n, m) }

// AddToEach adds 1 to the first counter of each record, and the number with the same index to the second one. Records begin with
// two counters. Only one goroutine calls it.
func AddToEach[R any](records []*R, n []uint64) { ordered.AddToEach(records, n) }

// Load returns the number.
func (c *Counter) Load() uint64 { return atomic.LoadUint64((*uint64)(c)) }
