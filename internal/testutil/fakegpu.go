package testutil

import (
	"os/exec"
	"path/filepath"
)

// test is the used part of *testing.T. Programs import this package, too, and should not link package
// testing.
type test interface {
	Helper()
	TempDir() string
	Fatalf(format string, args ...any)
}

// FakeGPU builds a fake driver from a C source for the duration of a test and returns its path. fault
// selects the driver's misbehavior, "" for none.
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
