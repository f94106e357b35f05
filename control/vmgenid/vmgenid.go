// Package vmgenid reports that the virtual machine was restored from a snapshot or cloned,
// as the hypervisor's generation ID device says: the kernel announces it by a uevent.
package vmgenid

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// kernelGroup is the multicast group to which the kernel sends uevents; udev's is 2.
const kernelGroup = 1

// Watcher calls a function for every new generation.
type Watcher struct {
	file *os.File
	done chan struct{}
}

// Watch calls changed, on a goroutine of its own, when the generation ID changes. Kernels
// or hypervisors without the device never report anything. Uevents are those of the calling
// thread's network namespace, in which the host's root must be root.
func Watch(changed func()) (*Watcher, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("watch for copies of the virtual machine: open a socket for uevents: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("watch for copies of the virtual machine: subscribe to uevents: %w", err)
	}
	w := &Watcher{file: os.NewFile(uintptr(fd), "uevents"), done: make(chan struct{})}
	go w.read(changed)
	return w, nil
}

// read ends when the socket is closed. Messages that were lost may have been that one.
func (w *Watcher) read(changed func()) {
	defer close(w.done)
	buf := make([]byte, 16<<10) // a uevent has at most 4 KiB
	for {
		n, err := w.file.Read(buf)
		switch {
		case err == nil && !isChange(buf[:n]):
		case err == nil || errors.Is(err, unix.ENOBUFS):
			changed()
		default:
			return
		}
	}
}

// Close waits until changed is not running, and will not be called again.
func (w *Watcher) Close() {
	_ = w.file.Close()
	<-w.done
}

// isChange reports whether a uevent, a header and variables that end with zeros, announces
// a new generation.
func isChange(message []byte) bool {
	for i, variable := range bytes.Split(message, []byte{0}) {
		if i > 0 && string(variable) == "NEW_VMGENID=1" {
			return true
		}
	}
	return false
}
