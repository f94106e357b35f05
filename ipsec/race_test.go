//go:build race

package ipsec

// race says that the race detector makes everything slower, and allocates.
const race = true
