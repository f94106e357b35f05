package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/internal/privilege"
	"github.com/warproute/warproute/internal/require"
)

// statusOf returns the lines of a status file of /proc by name.
func statusOf(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		lines[name] = strings.Join(strings.Fields(value), " ")
	}
	return lines
}

// A router that root started has the documented capabilities and no others, in all threads, and cannot get any; its
// threads are confined, workers most; it dumps no core. Its ports return nevertheless after their interfaces were deleted,
// others come, and it reloads.
func TestRunningRouterHasTheDocumentedPrivileges(t *testing.T) {
	x := newThird(t)
	path := filepath.Join(t.TempDir(), "warproute.yaml")
	writeFile(t, path, "ports: [lan0, wan0, \"guest?\"]\n")
	r := startRouter(t, x.Router, "--config", path)

	check := func() { t.Helper(); checkPrivileges(t, r, r.Process.Pid()) }
	check()
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", r.Process.Pid()))
	require.NoError(t, err)
	if i := strings.Index(string(limits), "Max core file size"); strings.Join(strings.Fields(string(limits)[i:])[4:6], " ") != "0 0" {
		t.Errorf("core dumps are possible:\n%s", limits)
	}

	x.plug("guest1")
	r.awaitPorts("lan0", "wan0", "guest1")
	x.reaches()
	x.unplug("guest1")
	r.awaitPorts("lan0", "wan0")
	x.plug("guest1")
	x.reaches()
	require.NoError(t, r.Process.Signal(unix.SIGHUP))
	eventually(t, 5*time.Second, "the router has reloaded", func() bool { return strings.Contains(r.Out.String(), "configuration reloaded") })
	check()
}

// checkPrivileges fails unless all threads of the process of a router have the documented capabilities and filters.
func checkPrivileges(t *testing.T, r *router, pid int) {
	t.Helper()
	want := uint64(0)
	for _, c := range privilege.Kept {
		want |= 1 << c.Bit
	}
	dir := fmt.Sprintf("/proc/%d", pid)
	workers := 0
	tasks, err := filepath.Glob(dir + "/task/*")
	require.NoError(t, err)
	for _, task := range tasks {
		s := statusOf(t, task+"/status")
		for _, set := range []string{"CapPrm", "CapEff", "CapBnd", "CapAmb", "CapInh"} {
			if s[set] != fmt.Sprintf("%016x", want) {
				t.Errorf("%s: %s is %s, want %016x", task, set, s[set], want)
			}
		}
		if s["NoNewPrivs"] != "1" || s["Seccomp"] != "2" {
			t.Errorf("%s: NoNewPrivs %s, Seccomp %s", task, s["NoNewPrivs"], s["Seccomp"])
		}
		if s["Seccomp_filters"] == "2" {
			workers++
		}
	}
	e, err := r.engine()
	require.NoError(t, err)
	if workers != len(e.Cores) {
		t.Errorf("%d threads have the filter of workers, want %d", workers, len(e.Cores))
	}
}

// A router that root starts becomes the user of privileges.user, and has what it needs: its directories, sockets,
// ports that come later, and the names of tables that Linux shows only to root.
func TestRouterBecomesAnotherUser(t *testing.T) {
	x := newThird(t)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755)) // of all directories of the test
	path, state := filepath.Join(dir, "warproute.yaml"), filepath.Join(dir, "state")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, "ports: [lan0, wan0, \"guest?\"]\nprivileges: {user: nobody}\nipsec: {state: %s}\n", state), 0o644))
	defer unix.Umask(unix.Umask(0)) // the user can write to the directory of the socket
	_, err := x.Router.Run("iptables-legacy", "-A", "FORWARD", "-p", "tcp", "--dport", "25", "-j", "DROP")
	require.NoError(t, err)
	r := startRouter(t, x.Router, "--config", path)
	eventually(t, 5*time.Second, "the log names the rules of iptables-legacy", func() bool { return strings.Contains(r.Out.String(), "iptables filter FORWARD (rules)") })
	s := statusOf(t, fmt.Sprintf("/proc/%d/status", r.Process.Pid()))
	if s["Uid"] != "65534 65534 65534 65534" || s["NoNewPrivs"] != "1" {
		t.Errorf("Uid %s, NoNewPrivs %s", s["Uid"], s["NoNewPrivs"])
	}
	if info, err := os.Stat(state); err != nil || info.Mode().Perm() != 0o700 || info.Sys().(*syscall.Stat_t).Uid != 65534 {
		t.Errorf("%s: %v, %v", state, info, err)
	}
	x.plug("guest1")
	r.awaitPorts("lan0", "wan0", "guest1")
	x.reaches()
	require.NoError(t, x.Router.Do(func() error { // as the user, it can load the program that reads stripped VLAN tags
		var reads []bool
		for _, name := range []string{"lan0", "guest1"} {
			i, err := net.InterfaceByName(name)
			if err != nil {
				return err
			}
			id, _, err := netdev.XDPProgram(i.Index)
			if err != nil {
				return err
			}
			_, readsTags := afxdp.RouterProgram(id)
			reads = append(reads, readsTags)
		}
		t.Logf("ports read stripped tags: %v", reads)
		if reads[0] != reads[1] {
			t.Errorf("a port of the start reads stripped tags: %v, one that came later: %v", reads[0], reads[1])
		}
		return nil
	}))
}

// A router with reduced privileges is upgraded again and again. Each process has the documented privileges, its user, and one
// spawner, which has the same privileges without the filter, is closed to ptrace, and locks no memory. Old processes and
// their spawners end.
func TestUpgradeKeepsReducedPrivileges(t *testing.T) {
	x := newThird(t)
	next, err := nextProgram()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755)) // of all directories of the test
	path, state := filepath.Join(dir, "warproute.yaml"), filepath.Join(dir, "state")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, "ports: [lan0, wan0, \"guest?\"]\nprivileges: {user: nobody}\nipsec: {state: %s}\n", state), 0o644))
	defer unix.Umask(unix.Umask(0)) // the user can write to the directory of the socket
	u := startUpgrades(t, x.Router, "--config", path)
	check := func() {
		t.Helper()
		pid := u.pids[len(u.pids)-1]
		checkPrivileges(t, u.router, pid)
		spawners := childrenOf(t, pid)
		if len(spawners) != 1 {
			t.Fatalf("the router has the child processes %v, want a spawner", spawners)
		}
		s, own := statusOf(t, fmt.Sprintf("/proc/%d/status", spawners[0])), statusOf(t, fmt.Sprintf("/proc/%d/status", pid))
		for _, key := range []string{"Uid", "Gid", "Groups", "CapPrm", "CapEff", "CapBnd", "CapAmb", "CapInh", "NoNewPrivs"} {
			if s[key] != own[key] {
				t.Errorf("%s of the spawner: %s, and of the router: %s", key, s[key], own[key])
			}
		}
		if s["Name"] != "warproute-spawn" || s["VmLck"] != "0 kB" || s["Seccomp"] != "0" || own["Uid"] != "65534 65534 65534 65534" {
			t.Errorf("spawner %s, %s locked, seccomp %s, user %s", s["Name"], s["VmLck"], s["Seccomp"], own["Uid"])
		}
		info, err := os.Stat(fmt.Sprintf("/proc/%d/mem", spawners[0]))
		require.NoError(t, err)
		if uid := info.Sys().(*syscall.Stat_t).Uid; uid != 0 {
			t.Errorf("/proc/PID/mem of the spawner belongs to user %d", uid)
		}
	}
	check()
	for _, to := range []struct{ program, version string }{{next, nextVersion}, {program, u.version(t)}} {
		spawner := childrenOf(t, u.pids[len(u.pids)-1])[0]
		u.upgraded(t, to.program, to.version)
		check()
		eventually(t, 5*time.Second, "the old spawner has ended", func() bool {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", spawner))
			return err != nil || strings.Contains(string(stat), ") Z ")
		})
	}
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	for extra, want := range map[string]string{
		"napi: thread\n":             "napi: thread needs CAP_SYS_NICE, which the running router lacks: restart it",
		"control: {group: daemon}\n": "privileges.user or control.group differ from those of the running router",
	} {
		writeFile(t, path, string(good)+extra)
		require.NoError(t, os.Chmod(path, 0o644))
		if r, _ := u.upgrade(t); r.Result != status.UpgradeRefused || !strings.Contains(r.Error, want) {
			t.Errorf("%s%+v, want %q", extra, r, want)
		}
	}
	writeFile(t, path, string(good))
	x.plug("guest1")
	u.awaitPorts("lan0", "wan0", "guest1")
	x.reaches()
	log := u.end()
	if !strings.Contains(log, `msg="control request" request="POST /upgrade" uid=0 pid=`) {
		t.Errorf("upgrades are not logged:\n%s", log)
	}
}

// childrenOf returns the child processes of a process.
func childrenOf(t *testing.T, pid int) (children []int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	require.NoError(t, err)
	for _, path := range tasks {
		text, _ := os.ReadFile(path) // of a thread that may have ended
		for word := range strings.FieldsSeq(string(text)) {
			child, err := strconv.Atoi(word)
			require.NoError(t, err)
			children = append(children, child)
		}
	}
	return children
}
