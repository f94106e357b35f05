package afxdp

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ethtoolChannels is struct ethtool_channels of linux/ethtool.h.
type ethtoolChannels struct {
	cmd                                     uint32
	maxRX, maxTX, maxOther, maxCombined     uint32
	rxCount, txCount, otherCount, combCount uint32
}

// ifreq is struct ifreq of linux/if.h with a pointer as its request.
type ifreq struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [24 - unsafe.Sizeof(uintptr(0))]byte
}

// channels returns how many queues the interface receives and transmits on now.
// A channel of ethtool carries a receive queue, a transmit queue, or both.
func channels(ifname string) (rx, tx int, err error) {
	if len(ifname) >= unix.IFNAMSIZ {
		return 0, 0, fmt.Errorf("read the queues of %s: no interface has so long a name", ifname)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, fmt.Errorf("read the queues of %s: open a socket: %w", ifname, err)
	}
	defer unix.Close(fd)

	ch := &ethtoolChannels{cmd: unix.ETHTOOL_GCHANNELS}
	req := &ifreq{data: unsafe.Pointer(ch)}
	copy(req.name[:], ifname)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(req)))
	runtime.KeepAlive(ch)
	switch {
	case errors.Is(errno, unix.EOPNOTSUPP):
		return 1, 1, nil
	case errno != 0:
		return 0, 0, fmt.Errorf("read the queues of %s: %w", ifname, errno)
	}
	return max(1, int(ch.rxCount+ch.combCount)), max(1, int(ch.txCount+ch.combCount)), nil
}

// QueueCount returns on how many queues an interface receives now (`ethtool -l`):
// 1 where the driver does not say. The interface is looked up in the network
// namespace of the calling thread.
func QueueCount(ifname string) (int, error) {
	rx, _, err := channels(ifname)
	return rx, err
}
