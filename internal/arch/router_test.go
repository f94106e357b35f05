package arch

import (
	"os/exec"
	"strings"
	"testing"
)

// The router has no benchmarks, peers or test support in it.
func TestRouterLinksNoBenchmarks(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "../../cmd/warproute").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for p := range strings.Lines(string(out)) {
		p, ours := strings.CutPrefix(strings.TrimSpace(p), module+"/")
		switch {
		case ours && matchesAny([]string{"bench/...", "memport", "internal/lab/...", "internal/oracle", "internal/routes", "internal/testutil", "internal/conformance/...", "internal/cli/clitest"}, p):
			t.Errorf("cmd/warproute links %s: it belongs in cmd/warproute-bench", p)
		case !ours && matchesAny([]string{"testing", "github.com/rogpeppe/go-internal/..."}, p):
			t.Errorf("cmd/warproute links %s", p)
		}
	}
}
