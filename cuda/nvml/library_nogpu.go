//go:build nogpu

package nvml

import "errors"

// load fails: a program that loads libraries at run time needs the C library's dynamic linker.
func load([]string, *functions) error {
	return errors.New("this program was built without GPU support (tag nogpu): build it without the tag")
}
