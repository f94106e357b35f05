package netdev

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// channels is struct ethtool_channels of linux/ethtool.h.
type channels struct {
	cmd         uint32
	maxRx, _    uint32
	_           uint32 // maximum of other channels
	maxCombined uint32
	rx, tx      uint32
	_           uint32 // other channels
	combined    uint32
}

// value is struct ethtool_value of linux/ethtool.h.
type value struct{ cmd, data uint32 }

// ifreq is struct ifreq of linux/if.h with ifr_data.
type ifreq struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [24 - unsafe.Sizeof(uintptr(0))]byte
}

// request sends an ethtool request, which the kernel overwrites with the reply. Longer names are cut
// to IFNAMSIZ.
func request[T channels | value](fd int, ifname string, r *T) error {
	req := &ifreq{data: unsafe.Pointer(r)}
	copy(req.name[:len(req.name)-1], ifname)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(req)))
	runtime.KeepAlive(r)
	if errno != 0 {
		return errno
	}
	return nil
}
