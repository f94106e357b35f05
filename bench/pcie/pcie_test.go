package pcie

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/internal/cheader"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/umem"
)

func TestCHeader(t *testing.T) {
	h := &cheader.Header{}
	h.Comment("Launch shape and PCIe requests: pcie.go.")
	h.Define("THREADS", threads, "per block")
	h.Define("LINE", line, "bytes that a lane loads at once")
	h.Define("REQUEST_LINES", requestLines)
	h.Define("LINES", umem.FrameSize/line, "of the largest frame")
	h.Struct("shape", params{}, "memory", "frames", "n", "times", "at", "read", "back", "lanes")
	h.Check(t, "layout.h")
}

func TestKernelRewritesExactlyTheShape(t *testing.T) {
	program := filepath.Join(t.TempDir(), "rewrite")
	if out, err := exec.Command("cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-maybe-uninitialized", "-O2", "-o", program, "testdata/rewrite.c").CombinedOutput(); err != nil {
		t.Fatalf("%v (a C compiler is needed: apt-get install gcc libc6-dev)\n%s", err, out)
	}
	for _, s := range []Shape{
		{256, 64, 32}, {256, 60, 0}, {220, 1480, 1480}, {192, 1536, 1536}, {240, 1808, 1808}, {0, 2048, 2048}, {304, 64, 64}, {1, 1, 1}, {2016, 32, 32}, {112, 500, 17},
	} {
		p := s.params()
		var args []string
		for _, n := range []uint32{p.At, p.Read, p.Back, p.Lanes} {
			args = append(args, strconv.Itoa(int(n)))
		}
		if int(p.At) > s.At || int(p.At+p.Read) < s.At+s.Read || int(p.At+p.Back) < s.At+s.Back && s.Back > 0 || p.Read > uint32(s.Read)+2*sector {
			t.Errorf("%+v: %+v", s, p)
		}
		if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
			t.Errorf("%+v: %v: %s", s, err, out)
		}
	}
}

func TestRatesRejectsShapesOutsideFrames(t *testing.T) {
	for _, s := range []Shape{{-1, 64, 32}, {0, 0, 0}, {0, 64, 65}, {2000, 64, 32}, {0, 64, -1}} {
		if _, err := Rates("", 1, []Shape{s}); err == nil || errors.Is(err, cuda.ErrNoDriver) || !strings.Contains(err.Error(), "2048 bytes") {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if _, err := Rates(filepath.Join(t.TempDir(), "libcuda.so.1"), 1, []Shape{{256, 64, 32}}); !errors.Is(err, cuda.ErrNoDriver) {
		t.Errorf("without a driver: %v", err)
	}
}

// fakeGPU builds a fake driver with two GPUs whose passes take 20 ms.
func fakeGPU(t *testing.T, fault string) string {
	t.Helper()
	return testutil.FakeGPU(t, "testdata/fakegpu.c", fault)
}

func TestRatesSumsConcurrentGPUs(t *testing.T) {
	lib, shapes := fakeGPU(t, ""), []Shape{{256, 64, 32}, {220, 1480, 1480}}
	const one = frames * times / 20e-3 / 1e6
	for gpus := 1; gpus <= 2; gpus++ {
		rates, err := Rates(lib, gpus, shapes)
		require.NoError(t, err)
		most := float64(gpus) * one
		for _, r := range rates {
			if len(rates) != len(shapes) || r > most || r < most*0.6 {
				t.Errorf("%d GPUs: %.1f Mpps, want up to %.1f", gpus, rates, most)
			}
		}
	}
}

func TestRatesEndsWithTheLastGPU(t *testing.T) {
	rates, err := Rates(fakeGPU(t, "late"), 2, []Shape{{256, 64, 32}})
	require.NoError(t, err)
	if most := 2 * frames * times / 30e-3 / 1e6; rates[0] > most || rates[0] < most*0.6 {
		t.Errorf("%.1f Mpps, want up to %.1f", rates[0], most)
	}
}

// A limit is not that of fewer GPUs than were asked for.
func TestEveryGPUHasToRewrite(t *testing.T) {
	heads := []Shape{{256, 64, 32}}
	for name, c := range map[string]struct {
		lib  string
		gpus int
		want string
	}{
		"none":           {fakeGPU(t, ""), 0, "0 GPUs do none"},
		"too many":       {fakeGPU(t, ""), 3, "3 requested, the CUDA driver has 2"},
		"one that fails": {fakeGPU(t, "launch"), 2, "GPU 1: "},
	} {
		if r, err := Rates(c.lib, c.gpus, heads); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want %q", name, r, err, c.want)
		}
	}
}
