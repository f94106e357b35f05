package lab

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Tap creates a TAP link in the namespace, sets it up and returns a file per queue, for the emulator of
// a NIC. The link exists as long as a file is open. Its frames carry offloads (IFF_VNET_HDR), as
// those of a virtual machine's host do.
func (ns *Namespace) Tap(name string, queues int) (files []*os.File, err error) {
	err = ns.Do(func() error {
		for range queues {
			ifr, err := unix.NewIfreq(name)
			if err != nil {
				return err
			}
			fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			files = append(files, os.NewFile(uintptr(fd), "tap "+name))
			flags := uint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
			if queues > 1 {
				flags |= unix.IFF_MULTI_QUEUE
			}
			ifr.SetUint16(flags)
			if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = ns.SetUp(name)
	}
	if err != nil {
		for _, f := range files {
			f.Close()
		}
		return nil, fmt.Errorf("create TAP link %s with %d queues in namespace %q: %w", name, queues, ns.name, err)
	}
	return files, nil
}
