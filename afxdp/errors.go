package afxdp

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// hints are remedies by errno.
type hints map[unix.Errno]string

// withHint appends the hint for err's errno to err.
func withHint(err error, h hints) error {
	for errno, hint := range h {
		if errors.Is(err, errno) {
			return fmt.Errorf("%w (%s)", err, hint)
		}
	}
	return err
}

const needRoot = "run as root, or with CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF, CAP_PERFMON and CAP_IPC_LOCK"

// retryBusy calls f until it does not return EBUSY or the deadline has passed: the kernel frees a
// socket some time after its close.
func retryBusy(deadline time.Time, f func() error) error {
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := f()
		if !errors.Is(err, unix.EBUSY) || time.Now().Add(pause).After(deadline) {
			return err
		}
		time.Sleep(pause)
	}
}
