package afxdp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapRing maps a ring of size descriptors of a socket. The kernel lays it out as
//
//	0     Producer     Consumer     Flags        Desc
//	+-----+------------+------------+------------+------------------------+
//	| ... | uint32 ... | uint32 ... | uint32 ... | size descriptors       |
//	+-----+------------+------------+------------+------------------------+
//
// with the offsets of XDP_MMAP_OFFSETS, producer and consumer on separate cache lines. A descriptor
// is a uint64, the address of a frame, in the fill and completion rings, and a struct xdp_desc in the
// RX and TX rings.
func mapRing[E any](fd int, page int64, at unix.XDPRingOffset, size uint32) (ring[E], []byte, error) {
	var desc E
	length := int(at.Desc) + int(size)*int(unsafe.Sizeof(desc))
	b, err := unix.Mmap(fd, page, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return ring[E]{}, nil, err
	}
	return ring[E]{
		producer: (*uint32)(unsafe.Pointer(&b[at.Producer])),
		consumer: (*uint32)(unsafe.Pointer(&b[at.Consumer])),
		flags:    (*uint32)(unsafe.Pointer(&b[at.Flags])),
		descs:    unsafe.Slice((*E)(unsafe.Pointer(&b[at.Desc])), size),
	}, b, nil
}
