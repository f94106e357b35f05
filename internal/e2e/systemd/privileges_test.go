package systemd

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/privilege"
)

// Under the unit the router is its own user, with the documented capabilities and no others. Members of its group read,
// and do not capture, reload or upgrade.
func testPrivileges(t *testing.T, h *host) {
	uid := h.run("id", "--user", "warproute")
	status := h.beside("cat", fmt.Sprintf("/proc/%s/status", h.show("MainPID")))
	want := uint64(0)
	for _, c := range privilege.Kept {
		want |= 1 << c.Bit
	}
	set := fmt.Sprintf("%016x", want)
	for _, line := range []string{"Uid:\t" + uid + "\t" + uid, "CapPrm:\t" + set, "CapEff:\t" + set, "CapBnd:\t" + set, "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(status, line) {
			t.Errorf("the status has no line %q:\n%s", line, status)
		}
	}
	member := func(args ...string) (string, error) {
		run := slices.Concat(h.enter, []string{"setpriv", "--reuid=4001", "--regid=warproute", "--clear-groups", "/usr/local/bin/warproute"}, args)
		out, err := exec.Command("nsenter", run...).CombinedOutput()
		return string(out), err
	}
	if out, err := member("show", "ports"); err != nil || !strings.Contains(out, "lan0") {
		t.Errorf("show ports: %v: %s", err, out)
	}
	for _, args := range [][]string{{"capture", "-w", "-", "--duration", "1s"}, {"reload"}, {"upgrade"}} {
		if out, err := member(args...); err == nil || !strings.Contains(out, "only, not for uid 4001") {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
	h.logged(t, "control request refused", "uid=4001")
	h.logged(t, "forwarded packets bypass netfilter rules", "iptables filter FORWARD (rules)") // whose names only root can read
}
