package guest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// programVar names the program under test to a test binary that runs in a guest.
const programVar = "WARPROUTE_TEST_IN_GUEST"

// Program returns the program under test to a test that TestInVM runs, "" on the host.
func Program() string { return os.Getenv(programVar) }

// TestInVM runs a test of the package in the current directory in a virtual machine with kernel
// modules, and returns its output. The test finds the router's program by Program. The guest
// has no room for the race detector.
func TestInVM(name string, limit time.Duration, modules ...string) (output string, err error) {
	pkg, err := os.Getwd()
	if err != nil {
		return "", err
	}
	root, err := moduleRoot(pkg)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "guest-test-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	program, test := filepath.Join(dir, "warproute"), filepath.Join(dir, "guest.test")
	if err := Build(program, "github.com/warproute/warproute/cmd/warproute"); err != nil {
		return "", err
	}
	build := exec.Command("go", "test", "-c", "-o", test, ".")
	build.Env = append(os.Environ(), buildEnv...)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the test for the guest: %w: %s", err, out)
	}
	g, err := StartVM(filepath.Join(root, "out/kernel"))
	if err != nil {
		return "", err
	}
	defer g.Close()
	if _, err := g.Run("modprobe", append([]string{"-a"}, modules...)...); err != nil {
		return "", err
	}
	// In the background, because it may exceed commandLimit. With GOMAXPROCS=1 on its only
	// processor, Go would resume goroutines after blocking system calls only every 10 ms.
	const log = "/run/test-output"
	script := fmt.Sprintf("cd %s; %s=%s GOMAXPROCS=4 %s -test.run '^%s$' -test.v -test.timeout %v >%s 2>&1; touch %[7]s.end", pkg, programVar, program, test, name, limit, log)
	if _, err := g.Run("sh", "-c", "("+script+") >/dev/null 2>&1 &"); err != nil {
		return "", err
	}
	for end := time.Now().Add(limit + time.Minute); ; time.Sleep(500 * time.Millisecond) {
		if _, err := g.Run("test", "-e", log+".end"); err == nil {
			break
		}
		if time.Now().After(end) {
			return "", fmt.Errorf("test %s did not end within %v", name, limit+time.Minute)
		}
	}
	output, err = g.Run("cat", log)
	if err == nil && !strings.Contains(output, "--- PASS: "+name+" (") {
		err = fmt.Errorf("test %s failed in the guest: %s", name, output)
	}
	return output, err
}

// moduleRoot returns the directory of go.mod at or above a directory.
func moduleRoot(dir string) (string, error) {
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("no go.mod above the current directory")
}
