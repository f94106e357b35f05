package systemd

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// exposure is the most that `systemd-analyze security` may find. docs/install.md says what remains and why.
const exposure = 2.0

// The unit is exposed in documented ways only.
func TestExposureOfTheUnit(t *testing.T) {
	document, err := os.ReadFile("../../../docs/install.md")
	require.NoError(t, err)
	out, err := exec.Command("systemd-analyze", "security", "--offline=true", unit).CombinedOutput()
	m := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindSubmatch(out)
	if err != nil || m == nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, _ := strconv.ParseFloat(string(m[1]), 64); got > exposure {
		t.Errorf("the exposure level is %v, want at most %v", got, exposure)
	}
	documented := strings.ReplaceAll(string(document), `\|`, "|")
	for line := range strings.Lines(string(out)) {
		if item := strings.Fields(line); len(item) > 2 && item[0] == "✗" && !strings.Contains(documented, "| `"+item[1]+"` |") {
			t.Errorf("docs/install.md lacks: %s", line)
		}
	}
}
