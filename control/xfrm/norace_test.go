//go:build !race

package xfrm

const rekeys = 100_000
