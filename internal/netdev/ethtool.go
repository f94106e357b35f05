package netdev

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Queues returns the numbers of receive and transmit queues of an interface (`ethtool -l`), 1 of
// each if the driver does not support the request. An ethtool channel has a receive queue, a
// transmit queue, or both.
func Queues(ifname string) (rx, tx int, err error) {
	if len(ifname) >= unix.IFNAMSIZ {
		return 0, 0, fmt.Errorf("read the queues of %s: the name is longer than an interface name can be", ifname)
	}
	ch := &channels{cmd: unix.ETHTOOL_GCHANNELS}
	err = withSocket(func(fd int) error { return request(fd, ifname, ch) })
	if errors.Is(err, unix.EOPNOTSUPP) {
		return 1, 1, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read the queues of %s: %w", ifname, err)
	}
	return max(1, int(ch.rx+ch.combined)), max(1, int(ch.tx+ch.combined)), nil
}

// Driver describes the driver of an interface. A field that the driver does not report is zero.
type Driver struct {
	Name  string
	Bus   string // address of the device, such as "0000:01:00.0" on PCI
	Flags uint32 // ETHTOOL_GFLAGS
}

// DriverOf returns the driver of an interface.
func DriverOf(ifname string) (d Driver) {
	_ = withSocket(func(fd int) error {
		if info, err := unix.IoctlGetEthtoolDrvinfo(fd, ifname); err == nil {
			d.Name, d.Bus = unix.ByteSliceToString(info.Driver[:]), unix.ByteSliceToString(info.Bus_info[:])
		}
		v := &value{cmd: unix.ETHTOOL_GFLAGS}
		if err := request(fd, ifname, v); err == nil {
			d.Flags = v.data
		}
		return nil
	})
	return d
}

// withSocket calls f with a socket for ioctl(2).
func withSocket(f func(fd int) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket: %w", err)
	}
	defer unix.Close(fd)
	return f(fd)
}
