//go:build race

// Package race tells tests whether the race detector watches. It makes everything ten
// times slower, and allocates: what it has nothing to say about, such as the answers of one
// goroutine to many questions, tests ask less of then. They run without it, too.
package race

const Enabled = true
