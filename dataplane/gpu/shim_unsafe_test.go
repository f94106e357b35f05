package gpu

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/lookup/trie"
)

// shimHeader is struct memory of shim.h, with offsets in the shared memory.
type shimHeader struct {
	ipv4, ipv6, nextHops, groups, adjacencies, ports, ingress, partialChecksums, jobs, keys, policies, spis, seqs, tunnels, nowServing, slot, in, out, umem uint64
	umemBytes                                                                                                                                               uint64
	seed, generation                                                                                                                                        uint32
}

const (
	shimKeys        = 512     // size of the key table
	shimPolicyWords = 1 << 20 // size of the policies
)

// shimMemory is memory that a test shares with the shim.
type shimMemory struct {
	*shimHeader
	file             *os.File
	images           [2][]uint32 // IPv4, IPv6
	nextHops         []uint64
	groups           []uint32
	adjacencies      []uint64
	ports            []uint64
	ingress          []uint32
	partialChecksums []uint32
	deviceJobs       []deviceJob
	reports          []esp.SAReport // in the same memory
	keys             []byte
	policies         []uint32
	spis             []uint64
	nowServing       []uint32
	slot             []byte // of a mailbox
	in               []batch.Frame
	out              []batch.Result
	umem             []byte
}

// shimImageWords has room for the internet's tables. Unused words take no memory.
const shimImageWords = trie.FirstNode + 1<<16*trie.Pitch

// newShimMemory maps memory for a copy of base, for chunks of up to size packets, and for frames of
// umemBytes, a multiple of the page size, at its end.
func newShimMemory(t *testing.T, base *fib.FIB, size, umemBytes int) *shimMemory {
	t.Helper()
	h, w := shimHeader{seed: base.Seed, umemBytes: uint64(umemBytes)}, base.Words()
	end := 1 << 16
	for _, region := range []struct {
		at    *uint64
		bytes int
	}{
		{&h.ipv4, 4 * shimImageWords}, {&h.ipv6, 4 * shimImageWords}, {&h.nextHops, 8 * len(w.NextHops)}, {&h.groups, 4 * len(w.Groups)},
		{&h.adjacencies, 8 * len(w.Adjacencies)}, {&h.ports, 8 * len(w.Ports)}, {&h.ingress, 4 * len(w.Ingress)}, {&h.partialChecksums, batch.MaxPorts / 8},
		{&h.jobs, 16 * (size + batchFrames)}, {&h.keys, shimKeys * keyBytes}, {&h.policies, 4 * shimPolicyWords}, {&h.spis, 8 * spiSlots},
		{&h.seqs, shimKeys * saSeqsBytes}, {&h.tunnels, 8 * maxTunnels}, {&h.nowServing, maxWorkers * nowServingBytes}, {&h.slot, 1 << 16},
		{&h.in, 8 * size}, {&h.out, 8 * (size + batchFrames)}, {&h.umem, umemBytes},
	} {
		*region.at = uint64(end)
		end += (region.bytes + 1<<16 - 1) &^ (1<<16 - 1)
	}
	end = int(h.umem) + umemBytes

	fd, err := unix.MemfdCreate("shim", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatalf("make memory to share: %v", err)
	}
	m := &shimMemory{file: os.NewFile(uintptr(fd), "shim")}
	t.Cleanup(func() { m.file.Close() })
	require.NoError(t, m.file.Truncate(int64(end)))
	mem, err := unix.Mmap(fd, 0, end, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatalf("map %d bytes to share: %v", end, err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	m.shimHeader = (*shimHeader)(unsafe.Pointer(&mem[0]))
	*m.shimHeader = h
	m.images = [2][]uint32{view[uint32](mem, h.ipv4, shimImageWords), view[uint32](mem, h.ipv6, shimImageWords)}
	m.nextHops = view[uint64](mem, h.nextHops, len(w.NextHops))
	m.groups = view[uint32](mem, h.groups, len(w.Groups))
	m.adjacencies = view[uint64](mem, h.adjacencies, len(w.Adjacencies))
	m.ports = view[uint64](mem, h.ports, len(w.Ports))
	m.ingress = view[uint32](mem, h.ingress, len(w.Ingress))
	m.partialChecksums = view[uint32](mem, h.partialChecksums, batch.MaxPorts/32)
	m.deviceJobs = view[deviceJob](mem, h.jobs, size)
	m.reports = view[esp.SAReport](mem, h.jobs, size)
	m.keys = view[byte](mem, h.keys, shimKeys*keyBytes)
	m.policies = view[uint32](mem, h.policies, shimPolicyWords)
	m.spis = view[uint64](mem, h.spis, spiSlots)
	m.nowServing = view[uint32](mem, h.nowServing, maxWorkers*nowServingBytes/4)
	m.slot = mem[h.slot:][:1<<16]
	m.in = view[batch.Frame](mem, h.in, size)
	m.out = view[batch.Result](mem, h.out, size)
	m.umem = mem[h.umem:end]
	return m
}

func view[T any](mem []byte, at uint64, n int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(&mem[at])), n)
}
