package testutil

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Again repeats a blocking system call while it fails with EINTR. The Go runtime signals threads, and
// calls with a timeout, like poll(2), are not restarted (signal(7)).
func Again(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
