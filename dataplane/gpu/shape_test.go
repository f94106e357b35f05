package gpu

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/umem"
)

// board returns the limits of a board by the shared memory of a block, the driver's part of it, and the
// threads and blocks of a multiprocessor.
func board(shared, reserved, threads, blocks int) limits {
	return limits{shared: shared, sharedReserved: reserved, multiprocessorShared: shared + reserved, registers: 65536, threads: threads, blocks: blocks}
}

var (
	hopper = board(232448, 1024, 2048, 32) // H100, H200; B200 has the same
	ampere = board(166912, 1024, 2048, 32) // A100
	ada    = board(101376, 1024, 1536, 24) // L4, L40S, RTX 40; A10 and RTX 30 have fewer blocks
	turing = board(65536, 0, 1024, 16)     // T4
	faked  = limits{shared: 232448, sharedReserved: 1024, multiprocessorShared: 4 * 77824, registers: 65536, threads: 2048, blocks: 32}
)

func TestShapesOfBoards(t *testing.T) {
	for _, tt := range []struct {
		name             string
		board            limits
		forward, gateway Shape
	}{
		{"H200", hopper, Shape{16, 73744, 0, 3, false}, Shape{8, 232384, 14672, 1, false}},
		{"A100", ampere, Shape{16, 73744, 0, 2, false}, Shape{8, 166848, 6480, 1, false}},
		{"L4", ada, Shape{16, 73744, 0, 1, false}, Shape{6, 101376, 6272, 1, true}},
		{"A10", board(101376, 1024, 1536, 16), Shape{16, 73744, 0, 1, false}, Shape{6, 101376, 6272, 1, true}},
		{"T4", turing, Shape{14, 64528, 0, 1, false}, Shape{2, 65536, 11200, 1, true}},
		{"just too small for the tables", board(118527, 1024, 1536, 24), Shape{16, 73744, 0, 1, false}, Shape{7, 118512, 7088, 1, true}},
		{"just large enough", board(118528, 1024, 1536, 24), Shape{16, 73744, 0, 1, false}, Shape{4, 118528, 6032, 1, false}},
		{"smallest gateway", board(42080, 0, 1024, 16), Shape{9, 41488, 0, 1, false}, Shape{1, 42080, 4096, 1, true}},
		{"48 KiB", board(49152, 0, 1024, 16), Shape{10, 46096, 0, 1, false}, Shape{1, 49152, 11168, 1, true}},
		{"40 KiB", board(40960, 0, 1024, 16), Shape{8, 36880, 0, 1, false}, Shape{}},
	} {
		if s, err := forwardNeeds.shape(tt.board); err != nil || s != tt.forward {
			t.Errorf("%s forwards with %v, %v; want %v", tt.name, s, err, tt.forward)
		}
		s, err := gatewayNeeds.shape(tt.board)
		if s != tt.gateway || (err != nil) != (tt.gateway == Shape{}) {
			t.Errorf("%s encrypts with %v, %v; want %v", tt.name, s, err, tt.gateway)
		}
		if err == nil {
			continue
		}
		const want = "the IPsec kernel needs 42080 bytes of shared memory per block, the GPU has 40960: too little shared memory"
		if err.Error() != want || !errors.Is(err, errShared) {
			t.Errorf("%s: %q, want %q", tt.name, err, want)
		}
	}
}

// TestShapesFit: on boards of any limits, a shape is within them, a larger one is not, and a staging buffer
// holds the longest packet.
func TestShapesFit(t *testing.T) {
	if longestPacket != umem.FrameSize {
		t.Errorf("packets of up to %d bytes are the device's, frames have %d", longestPacket, umem.FrameSize)
	}
	rnd := rand.New(rand.NewPCG(17, 6))
	fitting, without := map[string]int{}, 0
	for range 100_000 {
		l := limits{
			shared: rnd.IntN(300_000), sharedReserved: rnd.IntN(2048), multiprocessorShared: rnd.IntN(300_000),
			registers: rnd.IntN(1 << 17), threads: rnd.IntN(4096), blocks: rnd.IntN(33),
		}
		k := []kernelNeeds{forwardNeeds, gatewayNeeds}[rnd.IntN(2)]
		k.registers = rnd.IntN(256)
		s, err := k.shape(l)
		if err != nil {
			if _, ok := k.fit(l, 1, k.leastStaging); ok || !errors.Is(err, errShared) {
				t.Fatalf("a warp fits: %v, yet: %v", ok, err)
			}
			continue
		}
		fitting[k.name]++
		n := s.BlocksPerMultiprocessor
		if s.Warps < 1 || s.Warps > k.warps || n < 1 || n > l.blocks || n*s.Threads() > l.threads || n*s.Threads()*k.registers > l.registers ||
			s.Shared > l.shared || n*(s.Shared+l.sharedReserved) > l.multiprocessorShared {
			t.Fatalf("%v exceeds %+v", s, l)
		}
		if s.WithoutCBC {
			if all, err := k.shapeWithTables(l); err == nil && (2*all.Warps >= k.warps || all.Warps >= s.Warps) {
				t.Fatalf("%v, though %v fits", s, all)
			}
			k.tables -= k.cbcTables
			without++
		}
		if s.Shared != k.tables+s.Warps*(k.scratch+s.Staging) || s.Staging%stagingUnit != 0 {
			t.Fatalf("%+v does not add up", s)
		}
		if k.leastStaging > 0 && s.Staging < stagingOf(1, umem.FrameSize) {
			t.Fatalf("%v: a staging buffer does not hold a frame", s)
		}
		for more := s.Warps + 1; more <= k.warps; more++ {
			if _, ok := k.fit(l, more, k.staging); ok {
				t.Fatalf("%v: %d warps fit, too", s, more)
			}
		}
	}
	if fitting[forwardNeeds.name] < 1000 || fitting[gatewayNeeds.name] < 1000 || without < 1000 {
		t.Errorf("too few boards that fit: %v, of gateways %d without AES-CBC", fitting, without)
	}
}

// TestWarpsCanBeChosen: for a sweep, up to what the kernel has and the board fits.
func TestWarpsCanBeChosen(t *testing.T) {
	for _, tt := range []struct {
		needs             kernelNeeds
		board             limits
		warps, want, each int
	}{
		{gatewayNeeds, hopper, 4, 4, 34512}, {gatewayNeeds, hopper, 20, 8, 14672}, {gatewayNeeds, ampere, 10, 8, 6480}, {gatewayNeeds, ada, 3, 2, 8640}, {gatewayNeeds, ada, 5, 5, 8544},
		{gatewayNeeds, ada, 0, 6, 6272}, {forwardNeeds, hopper, 3, 3, 0},
	} {
		if s, err := tt.needs.withWarps(tt.warps).shape(tt.board); err != nil || s.Warps != tt.want || s.Staging != tt.each {
			t.Errorf("%s with %d warps: %+v, %v; want %d with %d bytes", tt.needs.name, tt.warps, s, err, tt.want, tt.each)
		}
	}
}

// TestSmallerBoardIsEmulated: a limit on shared memory gives the shape of the board that has it.
func TestSmallerBoardIsEmulated(t *testing.T) {
	f, library := newFake(t)
	found := got(find(library, 1))(t)[0]
	if l := got(readLimits(found, 0))(t); l != faked {
		t.Errorf("limits %+v, want %+v", l, faked)
	}
	l := got(readLimits(found, 101376))(t)
	if s, want := got(gatewayNeeds.shape(l))(t), got(gatewayNeeds.shape(ada))(t); s != want {
		t.Errorf("%v, want %v", s, want)
	}
	if l := got(readLimits(found, 1<<20))(t); l != faked {
		t.Errorf("a limit above the GPU's gives %+v", l)
	}
	f.failNext("cuDeviceGetAttribute")
	if _, err := readLimits(found, 0); err == nil {
		t.Error("no error of the driver")
	}
}

// TestNeedsAreThoseOfTheKernels compiles the kernels' structures.
func TestNeedsAreThoseOfTheKernels(t *testing.T) {
	for _, tt := range []struct {
		defines string
		needs   kernelNeeds
		tables  int
		header  int // struct shared, without scratch
	}{{"-DHOT_ENTRIES=64", forwardNeeds, 0, 8}, {"-DCHECK_REVERSE_PATH=0 -DROW_WORDS=33", gatewayNeeds, aesBytes, 36 + 16}} {
		program := filepath.Join(t.TempDir(), "sizes")
		// Unused functions of the kernels are not defined; optimization removes them.
		args := append(strings.Fields(tt.defines), "-std=gnu11", "-O2", "-w", "-o", program, "testdata/sizes.c")
		if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: a C compiler is needed (apt-get install gcc libc6-dev)\n%s", err, out)
		}
		out, err := exec.Command(program).Output()
		require.NoError(t, err)
		if want := fmt.Sprintf("%d %d", tt.needs.scratch, aesBytes); strings.TrimSpace(string(out)) != want {
			t.Errorf("%s: scratch and tables of %s bytes, want %s", tt.needs.name, out, want)
		}
		if rest := tt.needs.tables - tt.tables; rest < tt.header || rest > (tt.header+15)/16*16 {
			t.Errorf("%s: %d bytes besides scratch and tables, want %d and a multiple of 16", tt.needs.name, rest, tt.header)
		}
	}
	if least := stagingOf(1, umem.FrameSize); least > minStagingBytes {
		t.Errorf("a frame needs a staging buffer of %d bytes, the smallest has %d", least, minStagingBytes)
	}
}
