package xfrm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/guest"
	"github.com/warproute/warproute/internal/race"
	"github.com/warproute/warproute/internal/require"
)

// inGuest is set in a guest, where TestLinux runs the tests that need a kernel with ESP.
const inGuest = "XFRM_TEST_IN_GUEST"

// TestLinux runs all tests that need XFRM in a guest kernel that has it.
func TestLinux(t *testing.T) {
	if os.Getenv(inGuest) != "" {
		t.Run("ESP", func(t *testing.T) {
			if missing := checkESPMissing(t); len(missing) > 0 {
				t.Errorf("a kernel with ESP lacks it for %v", missing)
			}
		})
		t.Run("suites", testSuites)
		t.Run("forms", testForms)
		t.Run("refusals", testRefusals)
		t.Run("policies", testPolicies)
		t.Run("acquire", testAcquire)
		t.Run("restart", testRestart)
		t.Run("take-over", testTakeOver)
		t.Run("overrun", testOverrun)
		t.Run("strongSwan", testStrongSwan)
		return
	}
	if testing.Short() || race.Enabled {
		t.Skip("boots a kernel without room for the race detector; `make test` runs it without")
	}
	binary := filepath.Join(t.TempDir(), "xfrm.test")
	build := exec.Command("go", "test", "-c", "-o", binary, ".") // a guest has no room for the race detector
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the tests for the guest: %v: %s", err, out)
	}
	ns, err := lab.New("guest")
	require.NoError(t, err)
	t.Cleanup(func() { ns.Close() })
	g, err := guest.StartUML(ns)
	require.NoError(t, err)
	t.Cleanup(func() { g.Close() })
	if _, err := g.Run("modprobe", "-a", "ipv6", "veth", "xfrm_user", "esp4", "esp6", "ah4", "ipcomp", "drbg"); err != nil {
		t.Fatal(err)
	}
	// With one processor Go would leave what waits in a system call there for 10 ms.
	out, err := g.Run("env", inGuest+"=1", "GOMAXPROCS=4", binary, "-test.run", "^TestLinux$", "-test.v", "-test.timeout", "115s") // below the limit of a command
	if err != nil {
		t.Fatal(err) // with the output
	}
	if !strings.Contains(out, "--- PASS: TestLinux/strongSwan") {
		t.Fatalf("the tests did not run in the guest: %s", out)
	}
	t.Log(out)
}
