package gpu

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/cuda"
)

// tablePointers is where a device has its tables; struct tables of tables.h is the
// same. IPv4 and IPv6 are where the addresses of the images are.
type tablePointers struct {
	IPv4, IPv6, NextHops, Groups, Adjacencies, Ports, ReversePaths, Turns, Repair cuda.DevicePtr
	Seed                                                                          uint32
	Near                                                                          cuda.DevicePtr // each warp's own
}

func bytesOf[T uint32 | uint64](words []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*int(unsafe.Sizeof(words[0])))
}

// counter is memory of the host through which patches go, and in which the device
// counts those that it has made.
type counter struct{ mem []byte }

// counterBytes is where the patches begin.
const counterBytes = 256

const patchBytes = int(unsafe.Sizeof(patch{}))

func newCounter() (*counter, error) {
	mem, err := unix.Mmap(-1, 0, counterBytes+maxPatches*patchBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("map memory for changes of tables: %w", err)
	}
	return &counter{mem}, nil
}

func (c *counter) load() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Pointer(&c.mem[0]))) }

func (c *counter) patches() []patch {
	return unsafe.Slice((*patch)(unsafe.Pointer(&c.mem[counterBytes])), maxPatches)
}

func (c *counter) close() error { return unix.Munmap(c.mem) }
