//go:build !race

package privilege

// lockMemory is whether memory is locked. The race detector returns memory in ways that need it unlocked.
const lockMemory = true
