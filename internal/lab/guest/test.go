package guest

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/race"
	"github.com/warproute/warproute/internal/require"
)

// programVar names the program under test to a test binary that runs in a guest.
const programVar = "WARPROUTE_TEST_IN_GUEST"

// scaleVar chooses the sizes of tests, also in a guest.
const scaleVar = "WARPROUTE_SCALE"

// InVM runs a test, with the program under test, in a virtual machine with kernel modules. On the host, it builds the
// program, and the test without the race detector, for which a guest has no room, and runs the test there. The test has
// WARPROUTE_SCALE of the host, and runs the subtests that -run selects.
func InVM(t *testing.T, limit time.Duration, modules []string, run func(t *testing.T, program string)) {
	t.Helper()
	VM{}.Test(t, limit, modules, run)
}

// Test does what InVM does in a certain virtual machine. Kernel may be empty: the stock kernel.
func (v VM) Test(t *testing.T, limit time.Duration, modules []string, run func(t *testing.T, program string)) {
	t.Helper()
	if program := os.Getenv(programVar); program != "" {
		run(t, program)
		return
	}
	if testing.Short() {
		t.Skip("-short: boots a virtual machine")
	}
	pkg, err := os.Getwd()
	require.NoError(t, err)
	root := pkg
	for ; root != "/"; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
	}
	program, test := filepath.Join(t.TempDir(), "warproute"), testProgram(t)
	require.NoError(t, Build(program, "github.com/warproute/warproute/cmd/warproute"))
	v.Kernel = cmp.Or(v.Kernel, filepath.Join(root, "out/kernel"))
	g, err := v.Start()
	require.NoError(t, err)
	defer g.Close()
	_, err = g.Run("modprobe", append([]string{"-a"}, modules...)...)
	require.NoError(t, err)
	// In the background, because it may exceed commandLimit. With GOMAXPROCS=1 on its only
	// processor, Go would resume goroutines after blocking system calls only every 10 ms.
	const log = "/run/test-output"
	script := fmt.Sprintf("cd %s; %s=%s %s='%s' GOMAXPROCS=4 %s -test.run '%s' -test.v -test.timeout %v >%s 2>&1; touch %[9]s.end",
		pkg, programVar, program, scaleVar, os.Getenv(scaleVar), test, runPattern(t.Name(), flag.Lookup("test.run").Value.String()), limit, log)
	_, err = g.Run("sh", "-c", "("+script+") >/dev/null 2>&1 &")
	require.NoError(t, err)
	for end := time.Now().Add(limit + time.Minute); ; time.Sleep(500 * time.Millisecond) {
		if _, err := g.Run("test", "-e", log+".end"); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("not finished within %v", limit+time.Minute)
		}
	}
	output, err := g.Run("cat", log)
	require.NoError(t, err)
	t.Log(output)
	if !strings.Contains(output, "--- PASS: "+t.Name()+" (") {
		t.Error("the test failed in the guest")
	}
}

// testProgram returns the path of the running test, or of a build of it without the race detector.
func testProgram(t *testing.T) string {
	t.Helper()
	if !race.Enabled {
		file, err := os.Executable()
		require.NoError(t, err)
		return file
	}
	file := filepath.Join(t.TempDir(), "guest.test")
	build := exec.Command("go", "test", "-c", "-o", file, ".")
	build.Env = append(os.Environ(), buildEnv...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the test for the guest: %v: %s", err, out)
	}
	return file
}

// runPattern returns the -run pattern of a test in the guest, with the subtests that the pattern of the host selects.
// A slash separates levels, also within brackets.
func runPattern(name, host string) string {
	levels := strings.Split(host, "/")
	if n := strings.Count(name, "/") + 1; len(levels) > n {
		return "^" + name + "$/" + strings.Join(levels[n:], "/")
	}
	return "^" + name + "$"
}

// Inside reports whether a test of InVM runs in the guest.
func Inside() bool { return os.Getenv(programVar) != "" }
