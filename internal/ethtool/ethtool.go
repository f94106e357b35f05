// Package ethtool asks drivers of network interfaces, which it looks up in the network
// namespace of the calling thread.
package ethtool

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Queues returns how many queues an interface receives and transmits on now (`ethtool -l`),
// 1 of each where the driver does not say. A channel of ethtool carries a receive queue, a
// transmit queue, or both.
func Queues(ifname string) (rx, tx int, err error) {
	if len(ifname) >= unix.IFNAMSIZ {
		return 0, 0, fmt.Errorf("read the queues of %s: no interface has so long a name", ifname)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, fmt.Errorf("read the queues of %s: open a socket: %w", ifname, err)
	}
	defer unix.Close(fd)
	ch := &channels{cmd: unix.ETHTOOL_GCHANNELS}
	switch err := request(fd, ifname, ch); {
	case errors.Is(err, unix.EOPNOTSUPP):
		return 1, 1, nil
	case err != nil:
		return 0, 0, fmt.Errorf("read the queues of %s: %w", ifname, err)
	}
	return max(1, int(ch.rx+ch.combined)), max(1, int(ch.tx+ch.combined)), nil
}

// Driver returns an interface's driver and its ETHTOOL_GFLAGS; what it does not tell is ""
// or 0.
func Driver(ifname string) (name string, flags uint32) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", 0
	}
	defer unix.Close(fd)
	if info, err := unix.IoctlGetEthtoolDrvinfo(fd, ifname); err == nil {
		name = unix.ByteSliceToString(info.Driver[:])
	}
	v := &value{cmd: unix.ETHTOOL_GFLAGS}
	if err := request(fd, ifname, v); err == nil {
		flags = v.data
	}
	return name, flags
}

// Bus returns where an interface's device is on its bus, as "0000:01:00.0" on PCI; "" where
// the driver does not say.
func Bus(ifname string) string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	info, err := unix.IoctlGetEthtoolDrvinfo(fd, ifname)
	if err != nil {
		return ""
	}
	return unix.ByteSliceToString(info.Bus_info[:])
}
