// Package vmgenid reports when the virtual machine is cloned or restored from a snapshot.
//
// The hypervisor then changes the VM generation ID, and the kernel sends a uevent.
package vmgenid

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// kernelGroup is the multicast group of kernel uevents; 2 is the group of udev.
const kernelGroup = 1

// Watcher calls a function for every new generation.
type Watcher struct {
	file *os.File
	done chan struct{}
}

// Watch calls changed, on its own goroutine, when the generation ID changes. It never does so
// without kernel and hypervisor support.
//
// It receives uevents in the calling thread's network namespace, which must belong to the initial
// user namespace.
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

// read reads uevents until the socket is closed. Lost messages count as a change.
func (w *Watcher) read(changed func()) {
	defer close(w.done)
	buf := make([]byte, 16<<10) // uevents have up to 4 KiB
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

// Close stops the watcher. changed is not called after it returns.
func (w *Watcher) Close() {
	_ = w.file.Close()
	<-w.done
}

// isChange reports whether a uevent announces a new generation ID. A uevent is a header and
// variables, each terminated by a zero byte.
func isChange(message []byte) bool {
	for i, variable := range bytes.Split(message, []byte{0}) {
		if i > 0 && string(variable) == "NEW_VMGENID=1" {
			return true
		}
	}
	return false
}
