// Package counter counts what one goroutine sees, for others to read.
//
// A store of sync/atomic waits, on an x86 processor, until all stores before it are done: some
// 20 cycles, which a packet notices. Nothing needs to be ordered by a counter. It is one word, of
// which a reader sees some value that was stored, whoever looks (https://go.dev/ref/mem), so
// that on this processor a plain store does. Where the race detector watches, it is an
// atomic one.
package counter

import "sync/atomic"

// Counter is a number that one goroutine adds to, and any may read. The zero Counter is 0.
type Counter uint64

// Add adds to it. Only one goroutine calls it.
func (c *Counter) Add(n uint64) { store((*uint64)(c), uint64(*c)+n) }

// Load returns it.
func (c *Counter) Load() uint64 { return atomic.LoadUint64((*uint64)(c)) }
