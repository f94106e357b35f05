//go:build race

package xfrm

// rekeys is the number of rekeys in the test of memory, lower with the race detector.
const rekeys = 5_000
