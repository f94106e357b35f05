package testutil

import (
	"fmt"
	"os/exec"
	"path/filepath"
)

// FakeGPU builds, in a directory, a driver out of a C source that runs kernels' own code on the
// host. fault is what the source is to do wrong, "" for nothing.
func FakeGPU(dir, source, fault string) (library string, err error) {
	library = filepath.Join(dir, "libcuda.so.1")
	out, err := exec.Command("cc", "-shared", "-fPIC", "-pthread", "-O2", "-Wall", "-Wextra", "-Werror", `-DFAULT="`+fault+`"`,
		"-o", library, source).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build a fake driver (it needs a C compiler: apt-get install gcc libc6-dev): %w\n%s", err, out)
	}
	return library, nil
}
