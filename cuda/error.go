package cuda

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// ErrNoDriver is wrapped by the error of Open on a host without libcuda.
var ErrNoDriver = errors.New("no CUDA driver")

// Error is a failed call of the driver.
type Error struct {
	Call   string // with its arguments: cuMemAlloc(bytes=4096)
	Result Result
	Text   string // the driver's name of the result and its description
	Log    string // messages of the PTX compiler
}

func (e *Error) Error() string {
	text := e.Call + ": " + e.Text
	if hint := hints[e.Result]; hint != "" {
		text += ": " + hint
	}
	if e.Log != "" {
		text += ": " + strings.Join(strings.FieldsFunc(e.Log, func(r rune) bool { return r == '\n' }), "; ")
	}
	return text
}

// Unwrap returns the Result, for errors.Is(err, OutOfMemory).
func (e *Error) Unwrap() error { return e.Result }

func (r Result) Error() string { return fmt.Sprintf("CUDA result %d", int32(r)) }

// Sticky reports whether err is a sticky error: a faulting kernel corrupts all contexts of its
// process, and the process can use CUDA no more. Registered host memory and other processes are
// not affected.
func Sticky(err error) bool {
	var r Result
	return errors.As(err, &r) && sticky[r]
}

// failure returns the error of a call that returned r.
func (f *function) failure(r Result, args []any) error {
	return &Error{Call: f.describe(args), Result: r, Text: f.drv.text(r)}
}

// text returns the driver's description of a result.
func (d *Driver) text(r Result) string {
	var name, text *byte
	if invoke(d.cuGetErrorName.address, r, &name) != success || invoke(d.cuGetErrorString.address, r, &text) != success {
		return fmt.Sprintf("result %d, unknown to the driver", int32(r))
	}
	return fmt.Sprintf("%s (%s, %d)", goString(text), goString(name), int32(r))
}

// describe formats a call for an error message. It omits pointers, results and buffers.
func (f *function) describe(args []any) string {
	var shown []string
	for i, name := range f.args {
		switch v := reflect.ValueOf(args[i]); v.Kind() {
		case reflect.Pointer, reflect.Slice:
		case reflect.String:
			shown = append(shown, fmt.Sprintf("%s=%q", name, v.String()))
		case reflect.Uintptr:
			shown = append(shown, name+"="+formatWord(v.Uint()))
		default:
			shown = append(shown, fmt.Sprintf("%s=%d", name, args[i]))
		}
	}
	return f.name + "(" + strings.Join(shown, ", ") + ")"
}

// formatWord formats a number in decimal and an address in hexadecimal. Addresses are large.
func formatWord(v uint64) string {
	if v < 1<<32 {
		return strconv.FormatUint(v, 10)
	}
	return "0x" + strconv.FormatUint(v, 16)
}
