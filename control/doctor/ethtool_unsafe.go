package doctor

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ethtoolValue is struct ethtool_value of linux/ethtool.h.
type ethtoolValue struct{ cmd, data uint32 }

// ifreq is struct ifreq of linux/if.h with a pointer as its request.
type ifreq struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [24 - unsafe.Sizeof(uintptr(0))]byte
}

// ethtool returns an interface's driver and its ETHTOOL_GFLAGS; what it does not
// tell is "" or 0.
func ethtool(name string) (driver string, flags uint32) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", 0
	}
	defer unix.Close(fd)
	if info, err := unix.IoctlGetEthtoolDrvinfo(fd, name); err == nil {
		driver = unix.ByteSliceToString(info.Driver[:])
	}
	value := &ethtoolValue{cmd: unix.ETHTOOL_GFLAGS}
	req := &ifreq{data: unsafe.Pointer(value)}
	copy(req.name[:len(req.name)-1], name)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(req))); errno == 0 {
		flags = value.data
	}
	runtime.KeepAlive(value)
	return driver, flags
}
