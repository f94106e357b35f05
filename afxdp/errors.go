package afxdp

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// mends says, per system error, what to do about it.
type mends map[unix.Errno]string

// mended appends to err the mend for the system error in it, where there is one.
func mended(err error, m mends) error {
	for errno, mend := range m {
		if errors.Is(err, errno) {
			return fmt.Errorf("%w (%s)", err, mend)
		}
	}
	return err
}

const needRoot = "run as root, or with CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF, CAP_PERFMON and CAP_IPC_LOCK"

// retryBusy calls f until it returns something else than EBUSY or the deadline
// has passed: the kernel takes a while to tear a socket down after its close.
func retryBusy(deadline time.Time, f func() error) error {
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := f()
		if !errors.Is(err, unix.EBUSY) || time.Now().Add(pause).After(deadline) {
			return err
		}
		time.Sleep(pause)
	}
}
