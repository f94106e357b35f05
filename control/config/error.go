package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one thing that is wrong with a configuration.
type Error struct {
	File         string // as given to Parse; empty for a value that no file gave
	Line, Column int    // from 1; 0 where no place in the file is to blame
	Msg          string // what is wrong
	Mend         string // what to do
	Transient    bool   // the host lacks something that it may have later, without a change of the configuration

	key string // of the value
}

// newError makes an error about the value at key.
func newError(file, key, msg, mend string) *Error {
	return &Error{File: file, Msg: hideKeys(msg), Mend: hideKeys(mend), key: key}
}

func (e *Error) Error() string {
	text := e.Msg + "; " + e.Mend
	switch {
	case e.Line > 0:
		return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, text)
	case e.File != "":
		return e.File + ": " + text
	}
	return text
}

// Errors are all the things that are wrong, in the order of the file.
type Errors []*Error

// Error gives each its line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Transient reports whether the host may come to satisfy the configuration as it is.
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

// faulty are the keys of values that are known to be wrong.
type faulty map[string]bool

// cover reports whether a value is one of them, or part of one, so that one mistake
// is reported once.
func (f faulty) cover(key string) bool {
	for k := key; k != ""; k = parent(k) {
		if f[k] {
			return true
		}
	}
	return false
}

// orNil sorts the errors; none of them is no error.
func (e Errors) orNil() error {
	if len(e) == 0 {
		return nil
	}
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return e
}

// position is a place in a file, both from 1.
type position struct{ line, column int }

// parent is the key of what a value is part of: "ports[0].mode" → "ports[0]" →
// "ports" → "".
func parent(key string) string {
	return key[:max(strings.LastIndexAny(key, ".["), 0)]
}
