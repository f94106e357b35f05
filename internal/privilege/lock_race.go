//go:build race

package privilege

const lockMemory = false
