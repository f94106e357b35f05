package systemd

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// exposure is the most that `systemd-analyze security` may find. docs/install.md says what remains and why.
const exposure = 2.1

func TestExposureOfTheUnit(t *testing.T) {
	out, err := exec.Command("systemd-analyze", "security", "--offline=true", unit).CombinedOutput()
	m := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindSubmatch(out)
	if err != nil || m == nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, _ := strconv.ParseFloat(string(m[1]), 64); got > exposure {
		t.Errorf("the exposure level is %v, want at most %v:", got, exposure)
		for line := range strings.Lines(string(out)) {
			if strings.HasPrefix(line, "✗") {
				t.Log(line)
			}
		}
	}
}
