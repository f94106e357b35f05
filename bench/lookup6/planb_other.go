//go:build !amd64

package lookup6

// vectorDesigns are the designs that need more than Go: none, on this architecture.
func vectorDesigns() []Design { return nil }
