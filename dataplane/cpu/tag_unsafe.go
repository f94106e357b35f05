package cpu

import (
	"encoding/binary"
	"math/bits"
	"unsafe"

	"github.com/warproute/warproute/fib"
)

// writeTagged writes MAC addresses and a VLAN tag (fib.TagWords.Of), in 16 bytes that begin fib.TagLen bytes in front of a
// frame: its EtherType follows them. The frame has that room, which the caller has checked.
func writeTagged(frame []byte, dst, src fib.MAC, tag uint32) {
	h := (*[fib.MACsLen + fib.TagLen]byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(frame)), -fib.TagLen))
	binary.BigEndian.PutUint64(h[:], uint64(dst)<<16|uint64(src)>>32)
	binary.LittleEndian.PutUint64(h[8:], uint64(bits.ReverseBytes32(uint32(src)))|uint64(tag)<<32)
}
