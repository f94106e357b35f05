package testutil

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Again makes a system call that may wait, until it ends by itself. The runtime sends
// threads signals, and a call with a timeout, or poll(2), is not restarted then (signal(7)).
func Again(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
