package afxdp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapRing maps a ring of size entries of a socket. The kernel lays it out as
//
//	0     Producer     Consumer     Flags        Desc
//	+-----+------------+------------+------------+------------------------+
//	| ... | uint32 ... | uint32 ... | uint32 ... | size entries           |
//	+-----+------------+------------+------------+------------------------+
//
// with the offsets that XDP_MMAP_OFFSETS tells, producer and consumer on cache
// lines of their own. An entry is a uint64, the address of a frame, in the fill
// and completion rings and an xdp_desc in the RX and TX rings.
func mapRing[E any](fd int, page int64, at unix.XDPRingOffset, size uint32) (shared[E], []byte, error) {
	var entry E
	length := int(at.Desc) + int(size)*int(unsafe.Sizeof(entry))
	b, err := unix.Mmap(fd, page, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return shared[E]{}, nil, err
	}
	return shared[E]{
		produced: (*uint32)(unsafe.Pointer(&b[at.Producer])),
		consumed: (*uint32)(unsafe.Pointer(&b[at.Consumer])),
		flags:    (*uint32)(unsafe.Pointer(&b[at.Flags])),
		entries:  unsafe.Slice((*E)(unsafe.Pointer(&b[at.Desc])), size),
	}, b, nil
}
