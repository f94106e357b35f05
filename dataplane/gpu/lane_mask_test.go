package gpu

import (
	"os/exec"
	"strings"
	"testing"
)

// The kernel steps through sets of lanes as a loop over all lanes does.
func TestSetsOfLanes(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), compile(t, "testdata/lane_mask.c")).CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != "327680" {
		t.Errorf("%v: %q", err, got)
	}
}
