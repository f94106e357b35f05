package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// upgrades is a router whose binary is replaced.
type upgrades struct {
	*router
	path string // of the binary
	pids []int  // of the processes, the latest last
}

// nextVersion is the version of the second build of the program.
const nextVersion = "9.9.9-next"

// nextProgram returns a second build of the program, with another version.
var nextProgram = sync.OnceValues(func() (string, error) {
	path := program + "-next"
	args := append([]string{"build"}, buildFlags...)
	args = append(args, "-ldflags", "-X github.com/warproute/warproute/internal/cli.version="+nextVersion, "-o", path, "../../cmd/warproute")
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		err = errors.Join(err, errors.New(string(out)))
	}
	return path, err
})

// startUpgrades starts a router from a copy of the program.
func startUpgrades(t *testing.T, ns *lab.Namespace, args ...string) *upgrades {
	t.Helper()
	require.NoError(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) // to wait for the processes that routers start
	u := &upgrades{path: filepath.Join(t.TempDir(), "warproute")}
	u.install(t, program)
	before := program
	program = u.path
	u.router = startRouter(t, ns, args...)
	program = before
	u.pids = []int{u.Process.Pid()}
	t.Cleanup(func() { u.end() })
	u.prioritize(t)
	return u
}

// prioritize puts all threads of the router before other work on the machine. The next process inherits it.
func (u *upgrades) prioritize(t *testing.T) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", u.Process.Pid()))
	require.NoError(t, err)
	for _, task := range tasks {
		tid, _ := strconv.Atoi(filepath.Base(task))
		_ = unix.Setpriority(unix.PRIO_PROCESS, tid, -10) // a thread may have ended
	}
}

// install replaces the binary as a package manager does.
func (u *upgrades) install(t *testing.T, from string) {
	t.Helper()
	all, err := os.ReadFile(from)
	require.NoError(t, err)
	u.installBytes(t, all)
}

func (u *upgrades) installBytes(t *testing.T, all []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(u.path+".new", all, 0o755))
	require.NoError(t, os.Rename(u.path+".new", u.path))
}

// upgrade runs `warproute upgrade`.
func (u *upgrades) upgrade(t *testing.T, args ...string) (result status.Upgrade, stderr string) {
	t.Helper()
	cmd := exec.Command(program, append([]string{"upgrade", "--json", "--socket", u.Socket}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	failed := cmd.Run()
	if err := json.Unmarshal(out.Bytes(), &result); err != nil {
		t.Fatalf("upgrade: %v, %v\n%s%s", failed, err, &out, &errs)
	}
	if (failed == nil) != (result.Result == status.UpgradeDone) {
		t.Errorf("upgrade: %v, with %+v", failed, result)
	}
	if result.Result == status.UpgradeDone {
		u.pids = append(u.pids, result.PID)
	}
	return result, errs.String()
}

// upgraded upgrades to a binary and fails unless it runs.
func (u *upgrades) upgraded(t *testing.T, to, version string) status.Upgrade {
	t.Helper()
	u.install(t, to)
	r, _ := u.upgrade(t)
	if r.Result != status.UpgradeDone {
		t.Fatalf("not upgraded: %+v\n%s", r, u.Out)
	}
	u.runs(t, version)
	return r
}

// version returns the version of the router.
func (u *upgrades) version(t *testing.T) string {
	t.Helper()
	var v status.Version
	require.NoError(t, u.Get("/version", &v))
	return v.Version
}

// runs fails unless the router has a version.
func (u *upgrades) runs(t *testing.T, version string) {
	t.Helper()
	var v status.Version
	require.NoError(t, u.Get("/version", &v))
	if v.PID != u.pids[len(u.pids)-1] || version != "" && v.Version != version {
		t.Errorf("process %d runs with version %s, want %v and %s", v.PID, v.Version, u.pids, version)
	}
}

// end ends the latest process and waits for it. It returns the output of all.
func (u *upgrades) end() string {
	pid := u.pids[len(u.pids)-1]
	_ = unix.Kill(pid, unix.SIGTERM)
	if pid != u.Process.Pid() {
		for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
			if got == pid || errors.Is(err, unix.ECHILD) {
				break
			}
			if time.Now().After(end) {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
	select {
	case <-u.Process.Done(): // the pipe of the output is closed
	case <-time.After(10 * time.Second):
	}
	return u.Out.String()
}

// accounts returns the sums of the accounts of all processes that have ended.
func accounts(t *testing.T, log string) (sum upgradeAccount) {
	t.Helper()
	for _, line := range strings.Split(log, "\n") {
		if a, ok := labtest.ParseAccount(line); ok {
			sum.Arrived += a.Arrived
			sum.Linux += a.Linux
			sum.Lost += a.Lost
			sum.Received += a.Received
			sum.Transmitted += a.Transmitted
			sum.Dropped += a.Dropped
			sum.processes++
		}
	}
	return sum
}
