package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is an error in a configuration.
type Error struct {
	File         string // as passed to Parse; "" if the value is not from a file
	Line, Column int    // from 1; 0 if unknown
	Msg          string // problem
	Hint         string // how to fix it
	Transient    bool   // caused by the host, can resolve without a change of the configuration

	key string // key of the value
}

// newError returns an error about the value of a key.
func newError(file, key, msg, hint string) *Error {
	return &Error{File: file, Msg: hideKeys(msg), Hint: hideKeys(hint), key: key}
}

func (e *Error) Error() string {
	text := e.Msg + "; " + e.Hint
	if at := e.Position(); at != "" {
		return at + ": " + text
	}
	return text
}

// Position returns the file, line and column of the value, as far as they are known.
func (e *Error) Position() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Column)
	}
	return e.File
}

// AboutInterface reports whether the error is about the interface of a port.
func (e *Error) AboutInterface() bool {
	return strings.HasPrefix(e.key, "ports[") && strings.HasSuffix(e.key, ".interface")
}

// Errors lists errors in the order of the file.
type Errors []*Error

// Error returns one line per error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Transient reports whether all errors are transient.
func (e Errors) Transient() bool {
	return len(e) > 0 && !slices.ContainsFunc(e, func(err *Error) bool { return !err.Transient })
}

// Unwrap lets errors.As find an *Error.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, err := range e {
		errs[i] = err
	}
	return errs
}

// faulty is the set of keys with errors.
type faulty map[string]bool

// cover reports whether a key or a parent has an error, so that each is reported once.
func (f faulty) cover(key string) bool {
	for k := key; k != ""; k = parent(k) {
		if f[k] {
			return true
		}
	}
	return false
}

// orNil returns the sorted errors, nil for none.
func (e Errors) orNil() error {
	if len(e) == 0 {
		return nil
	}
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return e
}

// position is a line and column, from 1.
type position struct{ line, column int }

// parent returns the parent of a key: "ports[0].mode" → "ports[0]" →
// "ports" → "".
func parent(key string) string {
	return key[:max(strings.LastIndexAny(key, ".["), 0)]
}
