package systemd

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// exposure is the most that `systemd-analyze security` may find. The rest is what a router needs: the network with its
// capabilities and address families (AF_XDP, netlink), devices, system calls of groups that contain bpf and
// sched_setaffinity, and no IP filter, which would drop ICMP errors of routers (path MTU).
const exposure = 2.3

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
