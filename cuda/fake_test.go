package cuda

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// TestMain creates the directory for the fake drivers.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fakecuda")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fakes = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

var fakes string

// fakeLibrary builds testdata/fakecuda.c with the given macros and returns its path.
func fakeLibrary(t *testing.T, macros ...string) string {
	t.Helper()
	lib := filepath.Join(fakes, "libcuda"+strings.Join(macros, "")+".so.1")
	if _, err := os.Stat(lib); err == nil {
		return lib
	}
	args := []string{"-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", lib, "testdata/fakecuda.c"}
	for _, m := range macros {
		args = append(args, "-D"+m)
	}
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("build a fake driver (it needs a C compiler: apt-get install gcc libc6-dev): %v\n%s", err, out)
	}
	return lib
}

// fake is a driver with a call log.
type fake struct {
	*Driver
	lib uintptr
}

// openFake opens a fake driver with an empty log. testdata/fakecuda.c explains the macros.
func openFake(t *testing.T, macros ...string) fake {
	t.Helper()
	path := fakeLibrary(t, macros...)
	lib, err := load([]string{path})
	require.NoError(t, err)
	f := fake{lib: lib}
	invoke(dlsym(lib, "fake_reset"))
	f.Driver, err = Open(path)
	require.NoError(t, err)
	f.reset()
	return f
}

func (f fake) reset() { invoke(dlsym(f.lib, "fake_reset")) }

// fail makes a function of the driver return a result.
func (f fake) fail(name string, r Result) { invoke(dlsym(f.lib, "fake_fail"), name, r) }

// calls returns the log since the last reset.
func (f fake) calls() []string {
	text := make([]byte, 1<<16)
	invoke(dlsym(f.lib, "fake_copy_log"), text)
	return strings.Split(strings.TrimSpace(goString(&text[0])), "\n")
}

// context returns a context on the first device, bound to the test's thread.
func (f fake) context(t *testing.T) *Context {
	t.Helper()
	devices, err := f.Devices()
	require.NoError(t, err)
	c, err := devices[0].Retain()
	require.NoError(t, err)
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	require.NoError(t, c.Bind())
	f.reset()
	return c
}

// expect compares the log with want, and empties it.
func (f fake) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := f.calls(); !slices.Equal(got, want) {
		t.Errorf("the driver was called\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
	f.reset()
}

// got returns v, or fails the test.
func got[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

// failsWith checks that err contains every phrase.
func failsWith(t testing.TB, err error, phrases ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one that says %q", phrases)
	}
	for _, p := range phrases {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}
