package inplace

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/warproute/warproute/cuda"
)

// What is asked for of each frame is read and written back, and nothing else: heads, and
// packets wherever they begin.
func TestTheKernelRewritesWhatItShould(t *testing.T) {
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

func TestShapesOutsideOfFramesAreRefused(t *testing.T) {
	for _, s := range []Shape{{-1, 64, 32}, {0, 0, 0}, {0, 64, 65}, {2000, 64, 32}, {0, 64, -1}} {
		if _, err := Rates("", []Shape{s}); err == nil || errors.Is(err, cuda.ErrNoDriver) || !strings.Contains(err.Error(), "2048 bytes") {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if _, err := Rates(filepath.Join(t.TempDir(), "libcuda.so.1"), []Shape{{256, 64, 32}}); !errors.Is(err, cuda.ErrNoDriver) {
		t.Errorf("without a driver: %v", err)
	}
}
