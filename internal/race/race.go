//go:build race

// Package race reports whether the race detector is enabled. It slows code down ten times, and
// allocates, so tests do less work with it; they also run without it.
package race

const Enabled = true
