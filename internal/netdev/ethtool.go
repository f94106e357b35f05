package netdev

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Queues returns the numbers of receive and transmit queues of an interface (`ethtool -l`), 1 of
// each if the driver does not support the request. An ethtool channel has a receive queue, a
// transmit queue, or both.
func Queues(ifname string) (rx, tx int, err error) {
	ch, err := channelsOf(ifname)
	if err != nil {
		return 0, 0, err
	}
	rx, tx = ch.queues()
	return rx, tx, nil
}

// MaxQueues returns the maximum number of receive queues of an interface, 1 if the driver does not
// support the request.
func MaxQueues(ifname string) (int, error) {
	ch, err := channelsOf(ifname)
	if err != nil {
		return 0, err
	}
	return ch.most(), nil
}

// QueuesWithXDP returns the number of receive queues that an interface without XDP program will have
// with one in native mode.
func QueuesWithXDP(ifname string) (int, error) {
	ch, err := channelsOf(ifname)
	if err != nil {
		return 0, err
	}
	rx, _ := ch.queues()
	return queuesWithXDP(DriverOf(ifname).Name, rx, ch.most(), possibleCPUs()), nil
}

// queuesWithXDP is QueuesWithXDP of a driver, with current and maximum numbers of queues. virtio_net
// enables a queue pair per processor for XDP, and the device distributes received packets over them, too. It
// enables none if it has too few (virtnet_xdp_set).
func queuesWithXDP(driver string, now, most, cpus int) int {
	if driver == "virtio_net" && now+cpus <= most {
		return now + cpus
	}
	return now
}

// possibleCPUs returns the kernel's nr_cpu_ids: 1 more than the highest number of a processor, 1 if
// unknown.
func possibleCPUs() int {
	text, _ := os.ReadFile("/sys/devices/system/cpu/possible")
	list := strings.TrimSpace(string(text))
	last, err := strconv.Atoi(list[strings.LastIndexAny(list, ",-")+1:])
	if err != nil {
		return 1
	}
	return last + 1
}

func (ch *channels) queues() (rx, tx int) {
	return max(1, int(ch.rx+ch.combined)), max(1, int(ch.tx+ch.combined))
}

func (ch *channels) most() int {
	return max(1, int(ch.maxRx), int(ch.maxCombined), int(ch.rx+ch.combined))
}

// channelsOf returns the channels of an interface, none if the driver does not support the request.
func channelsOf(ifname string) (*channels, error) {
	if len(ifname) >= unix.IFNAMSIZ {
		return nil, fmt.Errorf("read the queues of %s: the name is longer than an interface name can be", ifname)
	}
	ch := &channels{cmd: unix.ETHTOOL_GCHANNELS}
	err := withSocket(func(fd int) error { return request(fd, ifname, ch) })
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return nil, fmt.Errorf("read the queues of %s: %w", ifname, err)
	}
	return ch, nil
}

// Driver describes the driver of an interface. A field that the driver does not report is zero.
type Driver struct {
	Name  string
	Bus   string // address of the device, such as "0000:01:00.0" on PCI
	Flags uint32 // ETHTOOL_GFLAGS
}

// Offloads that modify frames before XDP (ETH_FLAG_... of linux/ethtool.h).
const (
	FlagRxVLAN = 1 << 8
	FlagLRO    = 1 << 15
)

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
