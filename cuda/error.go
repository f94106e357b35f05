package cuda

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// ErrNoDriver is what Open returns, wrapped, where there is no libcuda.
var ErrNoDriver = errors.New("no CUDA driver")

// Error is a driver call that failed.
type Error struct {
	Call   string // with its arguments: cuMemAlloc(bytes=4096)
	Result Result
	Text   string // the driver's name of the result and its description
	Log    string // the compiler's messages, where PTX did not load
}

func (e *Error) Error() string {
	text := e.Call + ": " + e.Text
	if mend := mends[e.Result]; mend != "" {
		text += ": " + mend
	}
	if e.Log != "" {
		text += ": " + strings.Join(strings.FieldsFunc(e.Log, func(r rune) bool { return r == '\n' }), "; ")
	}
	return text
}

// Unwrap lets errors.Is(err, OutOfMemory) see through an Error.
func (e *Error) Unwrap() error { return e.Result }

func (r Result) Error() string { return fmt.Sprintf("CUDA result %d", int32(r)) }

// Lost tells whether, after err, the process can do nothing more with CUDA: a kernel
// that faults takes all contexts of its process with it, and new ones cannot be made.
// Memory that was registered stays the host's, and no other process is harmed.
func Lost(err error) bool {
	var r Result
	return errors.As(err, &r) && fatal[r]
}

// failure is the error for a call that returned r, nil for success.
func (d *Driver) failure(s symbol, r Result, args ...any) error {
	if r == success {
		return nil
	}
	return &Error{Call: describe(s, args), Result: r, Text: d.text(r)}
}

// text is what the driver says of a result.
func (d *Driver) text(r Result) string {
	var name, text *byte
	if invoke(d.fn[cuGetErrorName], r, &name) != success || invoke(d.fn[cuGetErrorString], r, &text) != success {
		return fmt.Sprintf("result %d, which the driver does not know", int32(r))
	}
	return fmt.Sprintf("%s (%s, %d)", goString(text), goString(name), int32(r))
}

// describe writes a call as a reader of its documentation knows it. Of arguments
// that are pointers, results and buffers, the value says nothing: they are left out.
func describe(s symbol, args []any) string {
	var shown []string
	for i, name := range strings.Fields(symbols[s].args) {
		switch v := reflect.ValueOf(args[i]); v.Kind() {
		case reflect.Pointer, reflect.Slice:
		case reflect.String:
			shown = append(shown, fmt.Sprintf("%s=%q", name, v.String()))
		case reflect.Uintptr:
			shown = append(shown, name+"="+word(v.Uint()))
		default:
			shown = append(shown, fmt.Sprintf("%s=%d", name, args[i]))
		}
	}
	return symbols[s].name + "(" + strings.Join(shown, ", ") + ")"
}

// word writes an argument that may be a number or an address. Addresses are large.
func word(v uint64) string {
	if v < 1<<32 {
		return strconv.FormatUint(v, 10)
	}
	return "0x" + strconv.FormatUint(v, 16)
}
