package soak

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

// gpu is a fake driver. Its GPU is a thread that runs the code of the kernels.
type gpu struct {
	dir   string // with the library
	state []byte // shared with it
}

const (
	stateBytes = 4096
	stillAt    = 2048 // in the state: not 0 while the GPU is stopped
)

func newGPU(t *testing.T) *gpu {
	t.Helper()
	g := &gpu{dir: t.TempDir()}
	state := filepath.Join(g.dir, "state")
	f, err := os.Create(state)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(stateBytes))
	g.state, err = unix.Mmap(int(f.Fd()), 0, stateBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Munmap(g.state) })
	cmd := exec.Command("cc", "-shared", "-fPIC", "-pthread", "-O2", "-Wall", "-Wextra", "-Werror", `-DSTATE="`+state+`"`,
		"-o", filepath.Join(g.dir, "libcuda.so.1"), "testdata/cpugpu.c")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build a driver (it needs a C compiler: apt-get install gcc libc6-dev): %v\n%s", err, out)
	}
	return g
}

// environment returns the environment variables for a router to find the driver.
func (g *gpu) environment() []string { return []string{"LD_LIBRARY_PATH=" + g.dir} }

// standStill begins or ends an outage.
func (g *gpu) standStill(still bool) {
	g.state[stillAt] = 0
	if still {
		g.state[stillAt] = 1
	}
}
