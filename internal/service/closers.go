package service

import (
	"errors"
	"fmt"
	"slices"
)

// closers is a stack of cleanup functions: each step of the start pushes its own, and
// unwind runs them in reverse order.
type closers []closer

type closer struct {
	name string // completes "stop: ..." in errors
	f    func() error
}

func (c *closers) push(name string, f func() error) { *c = append(*c, closer{name, f}) }

// unwind runs every function, even after an error, and empties the stack.
func (c *closers) unwind() error {
	var errs []error
	for _, x := range slices.Backward(*c) {
		if err := x.f(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", x.name, err))
		}
	}
	*c = nil
	return errors.Join(errs...)
}

// infallible adapts a cleanup function that cannot fail.
func infallible(f func()) func() error {
	return func() error { f(); return nil }
}
