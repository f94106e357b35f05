package testutil

import (
	"os/exec"
	"path/filepath"
)

// test is what is used of a *testing.T: the router has this package, too, and should not have
// package testing.
type test interface {
	Helper()
	TempDir() string
	Fatalf(format string, args ...any)
}

// FakeGPU builds a driver out of a C source, for as long as a test runs, and returns its path.
// fault is what the source is to do wrong, "" for nothing.
func FakeGPU(t test, source, fault string) string {
	t.Helper()
	library := filepath.Join(t.TempDir(), "libcuda.so.1")
	out, err := exec.Command("cc", "-shared", "-fPIC", "-pthread", "-O2", "-Wall", "-Wextra", "-Werror", `-DFAULT="`+fault+`"`,
		"-o", library, source).CombinedOutput()
	if err != nil {
		t.Fatalf("build a fake driver (it needs a C compiler: apt-get install gcc libc6-dev): %v\n%s", err, out)
	}
	return library
}
