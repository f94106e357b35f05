//go:build race

package xfrm

// rekeys is how many there are in the test of memory: the race detector makes each ten
// times as slow.
const rekeys = 5_000
