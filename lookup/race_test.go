//go:build race

package lookup_test

// race says that the race detector makes everything ten times slower.
const race = true
